"""Whether and where elections save what they cut off. Light enough for any command to import."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True)
class RescueChoice:
    """By default what is cut off is saved, in the user's state folder."""

    without: bool = False
    to: Path | None = None
    """The folder of rescues; None: the user's state folder."""

    @property
    def folder(self) -> Path:
        """Each rescue makes a folder of its own there."""
        return self.to or default_folder()


def all_folders(cluster_id: str, state: Path | None = None) -> list[Path]:
    """Where rescues of that cluster were saved: by default, and in folders that were named."""
    from breakglass.services.recovery.remembered.store import ReplicaMemory

    named = ReplicaMemory(cluster_id, state).rescues()
    return [*dict.fromkeys((default_folder(state), *named))]


def default_folder(state: Path | None = None) -> Path:
    """Where rescues go by default: in the *state* folder, or the user's own."""
    from breakglass.services.state_folder import state_folder

    return (state or state_folder()) / "rescue"
