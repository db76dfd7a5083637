"""Damages to files of backups; each takes the file, and another one of its kind."""

from collections.abc import Callable
from pathlib import Path

Damage = Callable[[Path, Path], None]


def removed(path: Path, _: Path) -> None:
    path.unlink()


def emptied(path: Path, _: Path) -> None:
    path.write_bytes(b"")


def cut(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def replaced(path: Path, _: Path) -> None:
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))


def flipped(path: Path, _: Path) -> None:
    content = bytearray(path.read_bytes())
    content[len(content) // 2] ^= 1
    path.write_bytes(content)


def swapped(path: Path, other: Path) -> None:
    one, two = path.read_bytes(), other.read_bytes()
    path.write_bytes(two)
    other.write_bytes(one)
