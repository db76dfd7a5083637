"""Garbage is not looked for while the console starts, and is from its first answer on."""

from __future__ import annotations

import gc
from collections.abc import Iterator

import pytest

from console import collecting
from tests.incidents import every_verdict
from tests.screens.consoles import console_on
from tests.screens.drawing import at_rest


@pytest.fixture
def put_off() -> Iterator[None]:
    collecting.put_off()
    yield
    gc.unfreeze()
    gc.enable()


@pytest.mark.usefixtures("put_off")
async def test_garbage_is_collected_again_once_the_cluster_was_read() -> None:
    async with console_on(every_verdict()).run_test() as pilot:
        await at_rest(pilot)
        assert gc.isenabled()
        assert gc.get_freeze_count()


async def test_what_is_there_is_left_out_once_alone() -> None:
    collecting.resume()
    assert not gc.get_freeze_count()
