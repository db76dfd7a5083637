"""New files: rights that keep out whom Kafka's ACLs keep out, and names that survive a power cut.

Folders are for their owner alone (0700), and so are files (0600), whatever the umask.
``BREAKGLASS_BACKUP_MODE=0750`` gives new folders those rights, and new files the same without the
right to execute (0640). Existing files and folders keep their rights.
"""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

from breakglass.services.errors import UsageError
from breakglass.services.regular_file import require_regular

VARIABLE = "BREAKGLASS_BACKUP_MODE"
FOLDER_MODE = 0o700
_MODE = re.compile(r"0?7[0-7]{2}", re.ASCII)
_EXECUTE = 0o111


def folder_mode() -> int:
    """The rights of a new folder.

    Raises:
        UsageError: the environment asks for rights that lock the owner out.
    """
    setting = os.environ.get(VARIABLE)
    if setting is None:
        return FOLDER_MODE
    if not _MODE.fullmatch(setting):
        raise UsageError(f"{VARIABLE} is {setting!r}: write the rights of folders, as in 0750.")
    return int(setting, 8)


def file_mode() -> int:
    """The rights of a new file. Raises as `folder_mode`."""
    return folder_mode() & ~_EXECUTE


def require_own_way(path: Path) -> None:
    """Return if no link of another account leads to *path*; raises OSError if one does.

    An account that may write to a folder could lead what is written there to any other folder.
    """
    for one in (path, *path.parents):
        if one.is_symlink() and one.lstat().st_uid not in (0, os.geteuid()):
            raise OSError(errno.ELOOP, "a link of another account leads there", str(one))


def make_folder(path: Path) -> None:
    """Make the folder at *path* alone, unless it is there. Raises OSError."""
    require_own_way(path)
    mode = folder_mode()
    try:
        path.mkdir(mode=mode)
    except FileExistsError:
        if not path.is_dir():
            raise
        return
    if VARIABLE in os.environ:
        path.chmod(mode)


def make_folders(path: Path) -> None:
    """Make the folder at *path*, and its parents where they are missing."""
    for folder in reversed([path, *path.parents]):
        if not folder.exists():
            make_folder(folder)


def open_new(path: str | Path, flags: int) -> int:
    """A descriptor of *path*, made with these rights where *flags* make it. Raises OSError.

    It can be the *opener* of `open`. A link, a FIFO and a device are refused: an account that
    may write to the folder would choose what is written to.
    """
    require_own_way(Path(path).parent)
    mode = file_mode()
    created = VARIABLE in os.environ and bool(flags & os.O_CREAT) and not Path(path).exists()
    descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, mode)
    require_regular(descriptor, path, errno.ENXIO)
    if created:
        os.fchmod(descriptor, mode)
    return descriptor


def sync_folder(path: Path) -> None:
    """Put the names in the folder at *path* on disk: they survive a power cut. Raises OSError."""
    descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
