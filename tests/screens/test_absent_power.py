"""A read-only console has no power to lose: no object it can reach could change a cluster."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from types import FunctionType, ModuleType
from typing import cast

import pytest

from breakglass.console.app import MODES, BreakglassApp
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.group_client import GroupClient
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.session import Power, ReadAccess
from tests.kit.extent import others_slow
from tests.kit.incidents import every_verdict
from tests.screens.consoles import console_on
from tests.screens.every_key import press_every_key

READS = api_keys.READ | {api_keys.API_VERSIONS}
CODE = (FunctionType, ModuleType, type)
"""Where definitions begin: what could be imported is not what is held."""


def reachable(start: object) -> Iterator[object]:
    """Every object that *start* leads to, but for code."""
    seen, ahead = {id(start)}, [start]
    while ahead:
        one = ahead.pop()
        yield one
        for other in gc.get_referents(one):
            if id(other) not in seen and not isinstance(other, CODE):
                seen.add(id(other))
                ahead.append(other)


def powers(console: BreakglassApp) -> list[object]:
    """Whatever *console* holds that could change a cluster."""
    return [
        one
        for one in reachable(console)
        if isinstance(one, Power | ElectionClient | GroupClient)
        or (isinstance(one, Sender) and not one.allowed <= READS)
    ]


@pytest.mark.parametrize("mode", others_slow(MODES, "offline"))
async def test_after_every_key_of_every_screen_nothing_that_can_change_a_cluster_exists(
    mode: str,
) -> None:
    console = console_on(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        pressed = await press_every_key(pilot, mode)
        assert len(pressed) > 1
        assert powers(console) == []
        armed = console_on(every_verdict(), power=Power(cast("ReadAccess", None)))
        assert powers(armed), "a power would be seen"
