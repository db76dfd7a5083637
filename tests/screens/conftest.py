"""What screens are tested on."""

from __future__ import annotations

import pytest

import console.app

pytest.register_assert_rewrite("tests.screens.drawing")
from tests.screens.drawing import drawn_as_before  # noqa: E402 - after its asserts are known

__all__ = ["drawn_as_before"]


@pytest.fixture
def bare_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mode of the console is a page with nothing on it."""
    places = dict.fromkeys(console.app.MODES, "tests.screens.bare_page:BarePage")
    monkeypatch.setattr(console.app, "MODES", places)
