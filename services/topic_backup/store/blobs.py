"""The interface of object stores: objects are written whole, read by range and never modified.

`NewFile.close` and `create` return once the object is durable, and never leave part of an object.
Only `create` decides between two writers.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import BinaryIO, Protocol

from breakglass.services.errors import StorageError
from breakglass.services.topic_backup.folder import NewFile, State

PROBE = "breakglass_probe"
_PROVED: set[str] = set()
"""The folders of stores that were seen to create a name only once."""


class Blobs(Protocol):
    """The objects of one folder. Can be pickled for other processes."""

    def where(self, name: str = "") -> str:
        """The full address of an object, or of the folder, for messages."""

    def names(self) -> list[str]:
        """All names; objects in subfolders are ``below/name``."""

    def size(self, name: str) -> int | None:
        """The size of an object; None if it does not exist."""

    def state(self, name: str) -> State | None:
        """The state of an object; None if it does not exist or cannot be proved unchanged."""

    def open(self, name: str) -> BinaryIO:
        """Open an object for reading; it is seekable, and bytes are fetched when they are read."""

    def begin(self, name: str) -> NewFile:
        """An object that exists once it is closed; it replaces an object of the same name."""

    def create(self, name: str, content: bytes) -> bool:
        """Create an object unless the name exists; return whether this call created it."""

    def remove(self, names: Sequence[str]) -> None:
        """Remove objects; missing objects are ignored."""


def require_create_once(blobs: Blobs) -> None:
    """Return if of two writers of the same name only one succeeds.

    Raises:
        StorageError: the store lets two writers create the same name.
    """
    where = blobs.where()
    if where in _PROVED:
        return
    # The object exists after the first call, so the second call must fail.
    blobs.create(PROBE, b"1\n")
    if blobs.create(PROBE, b"2\n"):
        raise StorageError(
            f"{where}: the store overwrites an object that must not be (it does not "
            "honour If-None-Match), so two runs could both commit: use another store."
        )
    _PROVED.add(where)
