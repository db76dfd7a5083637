"""Opening files that others may have put there: regular files only, read as far as is sensible.

A FIFO would keep its reader for ever, a device does not end, and a file of many gigabytes would
fill the memory: each is refused before anything is read.
"""

from __future__ import annotations

import errno
import os
import stat
from io import BufferedReader, FileIO
from pathlib import Path

NO_REGULAR_FILE = "it is no regular file"
SETTINGS_BYTES = 16 * 1024 * 1024
"""No file of settings, certificates or a secret is larger."""


def open_regular(path: Path) -> BufferedReader:
    """The regular file at *path*, for reading. Raises OSError, for a FIFO or a device too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise OSError(errno.EINVAL, NO_REGULAR_FILE, str(path))
    except OSError:
        os.close(descriptor)
        raise
    return BufferedReader(FileIO(descriptor, "rb"))


def read_regular(path: Path, most: int) -> bytes:
    """All of the regular file at *path*. Raises OSError, also for more than *most* bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            reason = f"it has {size:,} bytes, and no more than {most:,} are read"
            raise OSError(errno.EFBIG, reason, str(path))
        return file.read(size)
