"""Files of lines that sessions of one account append to, each line whole and on disk.

Any number of sessions write at once: none between the parts of another's write. A file may be
replaced by a shorter one in the meantime, so who waited for its lock looks if it is still there.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.errors import StorageError
from breakglass.services.file_lock import unlock, wait_for_lock
from breakglass.services.guard.lock import private_folder
from breakglass.services.regular_file import replacing


def append_lines(path: Path, lines: bytes, what: str) -> None:
    """Append whole *lines* to the file of *what*, which is made for its owner alone.

    Raises: StorageError.
    """
    if not lines:
        return
    private_folder(path.parent)
    try:
        with _locked(path) as descriptor:
            # A line break if the last line lacks its own.
            size = os.fstat(descriptor).st_size
            broken = size and os.pread(descriptor, 1, size - 1) != b"\n"
            view = memoryview((b"\n" if broken else b"") + lines)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fsync(descriptor)
    except OSError as error:
        raise _unwritable(path, what, error) from error


def shorten(path: Path, kept: Callable[[bytes], bytes], what: str) -> None:
    """Put in place of the file what *kept* makes of its contents, at once.

    Raises: StorageError.
    """
    try:
        with _locked(path) as descriptor, replacing(path, 0o600) as fresh:
            size = os.fstat(descriptor).st_size
            fresh.write(kept(os.pread(descriptor, size, 0)))
    except OSError as error:
        raise _unwritable(path, what, error) from error


@contextmanager
def _locked(path: Path) -> Iterator[int]:
    """The file at *path*, opened and locked for this process alone. Raises OSError."""
    while True:
        flags = os.O_RDWR | os.O_CREAT | os.O_APPEND | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK
        descriptor = os.open(path, flags, 0o600)
        try:
            wait_for_lock(descriptor)
            there = os.stat(path, follow_symlinks=False).st_ino == os.fstat(descriptor).st_ino
            if there:
                yield descriptor
                return
        except FileNotFoundError:
            continue
        finally:
            unlock(descriptor)


def _unwritable(path: Path, what: str, error: OSError) -> StorageError:
    return StorageError(
        f"{what} {path} cannot be written ({error.strerror}): free space there, or check its rights"
    )
