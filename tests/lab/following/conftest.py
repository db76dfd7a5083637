"""One lab for every follower; each fault is undone before the next test."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.lab.following.faults import small_disk
from tests.lab.following.lab import Lab, lab_in


@pytest.fixture(scope="package")
def shared_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_in(tmp_path_factory.mktemp("following")) as found:
        yield found


@pytest.fixture
def lab(shared_lab: Lab) -> Iterator[Lab]:
    """Whole at the beginning, and again at the end, whatever became of the test."""
    yield shared_lab
    shared_lab.whole()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for what the follower writes."""
    with small_disk(tmp_path / "disk") as place:
        if place is None:
            pytest.skip("this user may not mount a file system")
        yield place
