"""What screens are tested on."""

import asyncio
import sys

import pytest

from breakglass.console import app

pytest.register_assert_rewrite("tests.screens.drawing")
from tests.screens.drawing import drawn_as_before, kept, sizes_as_before  # noqa: E402 - after its asserts are known
from tests.screens.turns import keys_without_clocks  # noqa: E402

__all__ = ["drawn_as_before", "kept", "keys_without_clocks", "sizes_as_before"]


@pytest.fixture(autouse=True)
async def tasks_as_operators_have_them(keys_without_clocks: None) -> None:
    """Tasks begin at once where Textual's `run_async` lets them; its `run_test` never does."""
    if sys.version_info >= (3, 12):
        asyncio.get_running_loop().set_task_factory(asyncio.eager_task_factory)


@pytest.fixture
def bare_pages(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every mode of the console is a page with nothing on it."""
    places = dict.fromkeys(app.MODES, "tests.screens.bare_page:BarePage")
    monkeypatch.setattr(app, "MODES", places)
