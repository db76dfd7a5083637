"""Disk space kept free for a journal while it is written: a nameless file that gives it back.

The file has no name, so that the space is free again however its process ends. Where another
program fills the disk in the middle, the journal gets its lines from here.
"""

from __future__ import annotations

import errno
import os
import tempfile
from pathlib import Path

FULL = frozenset({errno.ENOSPC, errno.EDQUOT})
AT_LEAST = 1024 * 1024
"""Bytes given back at once: some file systems take their time to hand out a few blocks."""


class Reserve:
    """Space on the file system of one folder. Not for use by many threads."""

    def __init__(self, descriptor: int, size: int) -> None:
        self._descriptor: int | None = descriptor
        self._size = size

    @classmethod
    def take(cls, folder: Path, size: int) -> Reserve:
        """Reserve *size* bytes where *folder* is.

        Raises:
            OSError: there is no room for them.
        """
        descriptor, name = tempfile.mkstemp(prefix=".reserve-", dir=folder)
        try:
            os.unlink(name)
            os.posix_fallocate(descriptor, 0, size)
        except BaseException:
            os.close(descriptor)
            raise
        return cls(descriptor, size)

    def give(self, size: int) -> bool:
        """Give at least *size* bytes back to the file system; False when no reserve is left."""
        if self._descriptor is None or not self._size:
            return False
        self._size = max(0, self._size - max(2 * size, AT_LEAST))
        try:
            os.ftruncate(self._descriptor, self._size)
            os.fsync(self._descriptor)
        except OSError:
            self.close()
        return True

    def close(self) -> None:
        """Give everything back; closing twice does nothing."""
        descriptor, self._descriptor = self._descriptor, None
        if descriptor is not None:
            os.close(descriptor)
