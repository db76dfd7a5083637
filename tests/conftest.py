"""What every test stands on: markers by folder, user folders of its own, patient properties."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import settings

TESTS = Path(__file__).parent

# The machine that runs the tests may be busy with brokers: an example's wall time says nothing.
settings.register_profile("breakglass", deadline=None, print_blob=True)
settings.load_profile("breakglass")


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark every test under tests/lab as one that needs brokers."""
    for item in items:
        if item.path.is_relative_to(TESTS / "lab"):
            item.add_marker(pytest.mark.lab)


@pytest.fixture(autouse=True)
def user_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Settings and state of this test alone; the cache is shared, for Kafka's jars are in it."""
    folder = tmp_path / "user"
    monkeypatch.setenv("XDG_CONFIG_HOME", str(folder / "config"))
    monkeypatch.setenv("XDG_STATE_HOME", str(folder / "state"))
    return folder
