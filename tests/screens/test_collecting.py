"""Garbage is not looked for while the console starts, and is from its first answer on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from breakglass.console.memory import put_off_collecting, resume_collecting
from tests.kit.incidents import every_verdict
from tests.screens.consoles import console_on
from tests.screens.drawing import at_rest


@pytest.fixture(autouse=True)
def nothing_left_out() -> Iterator[None]:
    """Garbage is looked for everywhere, whatever consoles this process has had."""
    gc.unfreeze()
    yield
    gc.unfreeze()
    gc.enable()


async def test_garbage_that_was_not_looked_for_is_once_the_cluster_was_read() -> None:
    resume_collecting()
    assert not gc.get_freeze_count(), "it was looked for all the time"
    put_off_collecting()
    async with console_on(every_verdict()).run_test() as pilot:
        await at_rest(pilot)
        assert gc.isenabled()
        assert gc.get_freeze_count()
