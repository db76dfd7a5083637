"""Objects under one address: made whole, read by range, never changed in place.

The seam for stores. What `begin` closed and `put` wrote is durable and there wholly or not at
all; `create` is the one thing on which two writers are told apart.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Protocol

from breakglass.services.topic_backup.folder import NewFile, State


class Blobs(Protocol):
    """The objects of one folder. Can be sent to other processes."""

    def where(self, name: str = "") -> str:
        """The full address of an object, or of the folder, for messages."""

    def names(self) -> list[str]:
        """All there are, with those of folders below as ``below/name``."""

    def size(self, name: str) -> int | None:
        """Bytes of an object; None when there is none."""

    def state(self, name: str) -> State | None:
        """None where there is no such object, or nothing that proves that it did not change."""

    def open(self, name: str) -> BinaryIO:
        """An object for reading, seekable; bytes are fetched when they are read."""

    def begin(self, name: str) -> NewFile:
        """An object that is there once it is closed, in place of one of that name."""

    def create(self, name: str, content: bytes) -> bool:
        """Put an object unless there is one of that name already; whether it is this one now."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects; those that are gone already do not matter."""
