"""Garbage is not looked for while the console starts, and is from its first answer on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from breakglass.console.memory import put_off_collecting, resume_collecting
from tests.kit.incidents import every_verdict
from tests.screens.consoles import console_on
from tests.screens.drawing import at_rest


@pytest.fixture
def nothing_left_out() -> Iterator[None]:
    """Garbage is looked for everywhere, whatever consoles this process has had."""
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("nothing_left_out")
async def test_garbage_is_collected_again_once_the_cluster_was_read() -> None:
    put_off_collecting()
    async with console_on(every_verdict()).run_test() as pilot:
        await at_rest(pilot)
        assert gc.isenabled()
        assert gc.get_freeze_count()


@pytest.mark.usefixtures("nothing_left_out")
def test_nothing_is_left_out_where_garbage_was_looked_for_all_the_time() -> None:
    resume_collecting()
    assert not gc.get_freeze_count()
