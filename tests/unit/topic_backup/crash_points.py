"""Every state that a crash can leave a folder in, gathered while something writes there.

Before and after each write, cut, fsync, rename and removal the folder is looked at four ways:
as a kill -9 leaves it; as a power cut does, when nothing is there but what was synced; and with
only the names, or only the contents, ahead of what was synced, for a file system may write
either first.
"""

import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

State = tuple[tuple[str, bytes], ...]
"""The files of a folder, by name."""


@dataclass(slots=True)
class CrashPoints:
    """The states of *folder* since it is watched; *aside* keeps what is removed from it."""

    folder: Path
    aside: Path
    states: dict[State, str] = field(default_factory=dict, init=False)
    """Each state once, with the operation before which it could be left."""
    _synced_names: dict[str, int] = field(default_factory=dict, init=False)
    _synced: dict[int, bytes] = field(default_factory=dict, init=False)
    """Contents by inode."""

    def watch(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Look at the folder around every operation from now on."""
        self.folder.mkdir(parents=True)
        self.aside.mkdir()
        monkeypatch.setattr(os, "ftruncate", self._around(os.ftruncate))
        for name in ("replace", "unlink"):
            monkeypatch.setattr(Path, name, self._around(getattr(Path, name)))
        monkeypatch.setattr(os, "pwrite", self._in_halves(os.pwrite))
        plain = os.fsync
        monkeypatch.setattr(os, "fsync", lambda descriptor: self._fsync(plain, descriptor))

    def materialized(self, under: Path) -> Iterator[tuple[str, Path]]:
        """Each state as a folder of its own, with the operation that it was left before."""
        for number, (state, before) in enumerate(self.states.items()):
            folder = under / str(number)
            folder.mkdir(parents=True)
            for name, content in state:
                (folder / name).write_bytes(content)
            yield before, folder

    def _around(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            self._look(f"{call.__name__} {given}")
            result = call(*given, **named)
            self._look(f"after {call.__name__} {given}")
            return result

        return watched

    def _in_halves(self, call: Callable[[int, Any, int], int]) -> Callable[[int, Any, int], int]:
        def watched(descriptor: int, data: Any, at: int) -> int:
            self._look("pwrite")
            half = call(descriptor, data[: len(data) // 2], at)
            self._look("pwrite, half of it")
            whole = half + call(descriptor, data[half:], at + half)
            self._look("after pwrite")
            return whole

        return watched

    def _fsync(self, call: Callable[[int], None], descriptor: int) -> None:
        self._look("fsync")
        call(descriptor)
        inode = os.fstat(descriptor).st_ino
        if inode == self.folder.stat().st_ino:
            self._synced_names = {name: inode for name, (inode, _) in self._live().items()}
        elif (kept := self.aside / str(inode)).exists():
            self._synced[inode] = kept.read_bytes()
        self._look("after fsync")

    def _live(self) -> dict[str, tuple[int, bytes]]:
        found = {}
        for path in self.folder.iterdir():
            inode = path.stat().st_ino
            if not (self.aside / str(inode)).exists():
                # So that no inode is given away again, and what was removed can be read.
                (self.aside / str(inode)).hardlink_to(path)
            found[path.name] = inode, path.read_bytes()
        return found

    def _look(self, before: str) -> None:
        live = self._live()
        names = {name: inode for name, (inode, _) in live.items()}
        self._keep({name: content for name, (_, content) in live.items()}, f"killed: {before}")
        self._keep(self._durable(self._synced_names), f"power cut: {before}")
        self._keep(self._durable(names), f"names ahead: {before}")
        ahead = {
            name: (self.aside / str(inode)).read_bytes()
            for name, inode in self._synced_names.items()
        }
        self._keep(ahead, f"contents ahead: {before}")

    def _durable(self, names: dict[str, int]) -> dict[str, bytes]:
        return {name: self._synced.get(inode, b"") for name, inode in names.items()}

    def _keep(self, files: dict[str, bytes], before: str) -> None:
        self.states.setdefault(tuple(sorted(files.items())), before)
