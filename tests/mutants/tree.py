"""A copy of the tree that mutants are applied to, so that the tree itself is never broken."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tests.kit.extent import EVERYTHING
from tests.mutants.mutant import Mutant

ROOT = Path(__file__).parents[2]
CHANGED = ("bookkeeping", "console", "screens", "services")
TESTS_FAILED = 1
"""pytest's exit code where tests ran and some failed: any other proves nothing."""


@dataclass(frozen=True, slots=True)
class Run:
    """How a run of tests ended."""

    code: int
    output: str

    @property
    def passed(self) -> bool:
        return self.code == 0

    @property
    def failed(self) -> bool:
        """Tests ran, and at least one failed."""
        return self.code == TESTS_FAILED


@dataclass(frozen=True, slots=True)
class Tree:
    """A copy of what git tracks, and of new files that it does not ignore."""

    folder: Path

    @classmethod
    def copied_to(cls, folder: Path) -> Tree:
        """Copy the tree as it is now, uncommitted changes included."""
        listed = _git(ROOT, "ls-files", "-z", "--cached", "--others", "--exclude-standard")
        for name in filter(None, listed.split("\0")):
            if (ROOT / name).is_file() or (ROOT / name).is_symlink():
                target = folder / name
                target.parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(ROOT / name, target, follow_symlinks=False)
        return cls(folder)

    @contextmanager
    def broken_by(self, mutant: Mutant) -> Iterator[None]:
        """Apply *mutant*, and take it back at the end. Raises ValueError where it does not fit."""
        files = product_files(self.folder)
        changed = mutant.applied(files)
        for name, text in changed.items():
            (self.folder / name).write_text(text)
        try:
            yield
        finally:
            for name in changed:
                (self.folder / name).write_text(files[name])

    def test(self, tests: Sequence[str], *options: str) -> Run:
        """Run *tests* in this copy; programs that they start import this copy too."""
        command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider", *options, *tests]
        environment = {
            **os.environ,
            EVERYTHING: "1",
            "PYTHONPATH": str(self.folder),
            # A patch may leave a file's size and second of change as they were.
            "PYTHONDONTWRITEBYTECODE": "1",
        }
        done = subprocess.run(
            command,
            cwd=self.folder,
            env=environment,
            capture_output=True,
            encoding="utf-8",
            # A test of hostile text that fails may print it.
            errors="replace",
            check=False,
        )
        return Run(done.returncode, done.stdout + done.stderr)


def product_files(folder: Path) -> dict[str, str]:
    """The texts of what mutants may change, by name."""
    return {
        str(path.relative_to(folder)): path.read_text()
        for package in CHANGED
        for path in sorted((folder / package).rglob("*.py"))
    }


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
