"""Opens files that others may have put there: regular files only, of a bounded size.

Replaces a file at once, so that no reader sees half of it.

A FIFO would block its reader for ever, a device does not end, and a file of many gigabytes would
fill the memory: each is refused before anything is read.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from io import BufferedReader, FileIO
from pathlib import Path
from secrets import token_hex
from typing import BinaryIO

NO_REGULAR_FILE = "it is no regular file"
SETTINGS_BYTES = 16 * 1024 * 1024
"""The largest file of settings, certificates or a secret that is read, in bytes."""


def open_regular(path: Path) -> BufferedReader:
    """The regular file at *path*, for reading. Raises OSError, for a FIFO or a device too."""
    descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    require_regular(descriptor, path, errno.EINVAL)
    return BufferedReader(FileIO(descriptor, "rb"))


def require_regular(descriptor: int, path: str | Path, number: int) -> None:
    """Return if a regular file is open; if not, close it and raise OSError with *number*."""
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise OSError(number, NO_REGULAR_FILE, str(path))


def read_given(path: Path, most: int) -> bytes:
    """As `read_regular`, or all of the pipe that the shell opened for this process: ``<(...)``.

    Its writer is the operator's own, so it ends; another FIFO may have no writer.
    """
    if path.parent not in (Path("/dev/fd"), Path("/proc/self/fd")):
        return read_regular(path, most)
    with path.open("rb") as pipe:
        if not stat.S_ISFIFO(os.fstat(pipe.fileno()).st_mode):
            return read_regular(path, most)
        data = pipe.read(most + 1)
    if len(data) > most:
        raise OSError(errno.EFBIG, f"no more than {most:,} bytes are read", str(path))
    return data


def read_regular(path: Path, most: int) -> bytes:
    """All of the regular file at *path*. Raises OSError, also for more than *most* bytes."""
    with open_regular(path) as file:
        size = os.fstat(file.fileno()).st_size
        if size > most:
            reason = f"it has {size:,} bytes, and no more than {most:,} are read"
            raise OSError(errno.EFBIG, reason, str(path))
        return file.read(size)


def replace_regular(path: Path, content: bytes, mode: int) -> None:
    """Replace the file at *path* by *content*; as `replacing`."""
    with replacing(path, mode) as file:
        file.write(content)


@contextmanager
def replacing(path: Path, mode: int) -> Iterator[BinaryIO]:
    """A file that replaces that at *path* after the block: a reader sees the old or the new.

    It has the rights *mode*, whatever the umask. Raises OSError, as `require_replaceable` does.
    """
    require_replaceable(path)
    beside = path.with_name(f".{path.name}.{token_hex(8)}.new")
    descriptor = os.open(beside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode)
    try:
        with open(descriptor, "wb") as file:
            os.fchmod(descriptor, mode)
            yield file
            file.flush()
            os.fsync(descriptor)
        beside.replace(path)
    finally:
        beside.unlink(missing_ok=True)


def require_replaceable(path: Path) -> None:
    """Return if *path* is a regular file, or nothing yet; raises OSError if not.

    A device, a FIFO or a link is there for others: as root, even ``/dev/null`` would be replaced.
    What is put there a moment later is replaced, but never followed or written to.
    """
    with suppress(FileNotFoundError):
        if not stat.S_ISREG(path.lstat().st_mode):
            raise OSError(errno.EINVAL, NO_REGULAR_FILE, str(path))
