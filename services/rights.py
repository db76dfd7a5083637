"""The rights of what is written: backups, plans and logs hold what Kafka's ACLs keep from others.

Folders are for their owner alone (0700), and so are files (0600), whatever the umask.
``BREAKGLASS_BACKUP_MODE=0750`` gives new folders those rights, and new files the same without the
right to execute (0640). What is there already keeps its rights.
"""

from __future__ import annotations

import os
import re
from pathlib import Path

from breakglass.services.errors import UsageError

VARIABLE = "BREAKGLASS_BACKUP_MODE"
FOLDER_MODE = 0o700
_MODE = re.compile(r"0?7[0-7]{2}", re.ASCII)
_EXECUTE = 0o111


def folder_mode() -> int:
    """The rights of a new folder.

    Raises:
        UsageError: the environment asks for none that leaves them to their owner.
    """
    told = os.environ.get(VARIABLE)
    if told is None:
        return FOLDER_MODE
    if not _MODE.fullmatch(told):
        raise UsageError(f"{VARIABLE} is {told!r}: write the rights of folders, as in 0750.")
    return int(told, 8)


def file_mode() -> int:
    """The rights of a new file. Raises as `folder_mode`."""
    return folder_mode() & ~_EXECUTE


def make_folder(path: Path) -> None:
    """Make the one folder at *path*, unless it is there. Raises OSError."""
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
    """The same with its parents where they are missing."""
    for one in reversed([path, *path.parents]):
        if not one.exists():
            make_folder(one)


def open_new(path: str | Path, flags: int) -> int:
    """A descriptor of *path*, made with these rights where *flags* make it. Raises OSError.

    It can be the *opener* of `open`.
    """
    mode = file_mode()
    told = VARIABLE in os.environ and bool(flags & os.O_CREAT) and not Path(path).exists()
    descriptor = os.open(path, flags | os.O_CLOEXEC, mode)
    if told:
        os.fchmod(descriptor, mode)
    return descriptor
