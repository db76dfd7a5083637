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

ROOT = Path(__file__).parents[2]
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
    def broken_by(self, patch: Path) -> Iterator[None]:
        """Apply *patch*, and take it back at the end. Raises ValueError where it does not fit."""
        self._apply(patch)
        try:
            yield
        finally:
            self._apply(patch, "--reverse")

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

    def _apply(self, patch: Path, *options: str) -> None:
        done = subprocess.run(
            ["git", "apply", "-C1", *options, str(patch)],
            cwd=self.folder,
            env={**os.environ, "GIT_CEILING_DIRECTORIES": str(self.folder.parent)},
            capture_output=True,
            text=True,
            check=False,
        )
        if done.returncode:
            raise ValueError(f"{patch.name} does not fit the tree: {done.stderr.strip()}")


def _git(folder: Path, *arguments: str) -> str:
    return subprocess.run(
        ["git", *arguments], cwd=folder, capture_output=True, text=True, check=True
    ).stdout
