"""The scores of the drills that were played on this machine: a line of JSON for each."""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass, fields
from pathlib import Path
from typing import Any

from breakglass.services.errors import StorageError

FILE = "drills.jsonl"
"""In the user's state folder."""


@dataclass(frozen=True, slots=True)
class PlayedDrill:
    """One drill that was played to its end."""

    at: str
    """When it ended, in UTC."""
    seed: int
    level: str
    player: str
    """``keys`` for a person, ``auto`` for Breakglass itself."""
    score: int
    partitions: int
    """Partitions that could be brought back."""
    left: int
    """Of these, and of those that had a leader, the partitions without leader at the end."""
    lost: int
    """Records."""
    seconds: int
    keys: int
    commands: int
    kafka_version: str = ""


def remember(played: PlayedDrill, folder: Path) -> Path:
    """Add a line to the history in *folder*; returns the file.

    Raises:
        StorageError: it cannot be written.
    """
    path = folder / FILE
    line = json.dumps(asdict(played), separators=(",", ":")) + "\n"
    try:
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        with os.fdopen(descriptor, "w", encoding="utf-8") as file:
            file.write(line)
    except OSError as error:
        raise StorageError(
            f"The score cannot be written to {path} ({error.strerror}): make room there."
        ) from error
    return path


def history(folder: Path) -> list[PlayedDrill]:
    """The drills that were played, oldest first; lines that are torn or of no drill are left out.

    Raises:
        StorageError: the file is there and cannot be read.
    """
    path = folder / FILE
    try:
        text = path.read_text(encoding="utf-8", errors="replace")
    except FileNotFoundError:
        return []
    except OSError as error:
        raise StorageError(f"{path} cannot be read ({error.strerror}): see who owns it.") from error
    found = (_played(line) for line in text.splitlines())
    return [played for played in found if played is not None]


def _played(line: str) -> PlayedDrill | None:
    try:
        read: Any = json.loads(line)
        known = {field.name for field in fields(PlayedDrill)}
        return PlayedDrill(**{name: value for name, value in read.items() if name in known})
    except (ValueError, TypeError, AttributeError):
        return None
