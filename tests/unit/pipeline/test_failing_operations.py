"""A backup in which any one operation on its files fails: it says so, and the next is whole."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.verification import verify_files
from tests.unit.pipeline.test_crash_points import COMMITS, TRUTH, committed, offsets, run

ON_DESCRIPTORS = ("open", "pwrite", "fsync", "ftruncate")
ON_PATHS = ("replace", "unlink")
MOST_OPERATIONS = 500
ERRORS = (errno.ENOSPC, errno.EACCES, errno.EIO)


@dataclass(slots=True)
class Faults:
    """Counts operations, and lets one of them fail."""

    failing: int | None = None
    """Its number; None: none does."""
    error: int = errno.ENOSPC
    count: int = 0
    failed: str = ""
    """What failed."""

    def inject(self, patch: pytest.MonkeyPatch) -> None:
        for name in ON_DESCRIPTORS:
            patch.setattr(os, name, self._counted(getattr(os, name)))
        for name in ON_PATHS:
            patch.setattr(Path, name, self._counted(getattr(Path, name)))

    def _counted(self, call: Callable[..., Any]) -> Callable[..., Any]:
        def counted(*given: Any, **named: Any) -> Any:
            self.count += 1
            if self.count == self.failing:
                self.failed = f"{call.__name__} {given}"
                raise OSError(self.error, os.strerror(self.error))
            return call(*given, **named)

        return counted


def attempt(folder: Path, faults: Faults) -> str:
    """Runs until one fails; returns what it said."""
    with pytest.MonkeyPatch.context() as patch:
        faults.inject(patch)
        for end in COMMITS:
            try:
                run(folder, end)
            except (StorageError, OSError) as error:  # As it is where a task of Spark writes.
                return str(error)
    return ""


@pytest.mark.slow
# The process of a task ends when an operation of it fails, with the files that it has open.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")
def test_whatever_fails_is_said_and_the_last_commit_is_whole(tmp_path: Path) -> None:
    whole = Faults()
    assert attempt(tmp_path / "whole" / "orders", whole) == ""
    assert 80 < whole.count < MOST_OPERATIONS
    seen = set()
    for number in range(1, whole.count + 1):
        path = tmp_path / str(number) / "orders"
        error = ERRORS[number % len(ERRORS)]
        faults = Faults(number, error)
        said = attempt(path, faults)
        assert os.strerror(error) in said, faults.failed
        folder = LocalFolder(path)
        if path.is_dir() and read_manifest(folder):
            assert verify_files(folder).whole, faults.failed
            assert offsets(folder) == list(range(committed(folder))), faults.failed
            seen.add(committed(folder))
        run(path, len(TRUTH))
        assert offsets(folder) == list(range(len(TRUTH))), faults.failed
        assert verify_files(folder).whole, faults.failed
        assert [name for name in folder.names() if name.startswith(".")] == [], faults.failed
    assert seen == set(COMMITS)
