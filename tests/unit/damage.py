"""What happens to files of backups, whatever is in them: for tests of every reader x every damage.

Each damage takes the file, and another one of its kind.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, Path], None]


def removed(path: Path, _: Path) -> None:
    path.unlink()


def emptied(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def swapped(path: Path, other: Path) -> None:
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)
