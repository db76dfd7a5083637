"""What refreshes leave known: of when it is, above all."""

from __future__ import annotations

from breakglass.screens.messages import ClusterRead
from tests.kit.clock import Clock
from tests.kit.incidents import bomb, incident_of
from tests.screens.consoles import console_on
from tests.screens.turns import until

FIRST = 1
"""The refresh that a console begins with."""
SLOW_SECONDS = 8.0
"""What brokers take to tell their replicas after the metadata was read."""


async def test_late_evidence_is_as_old_as_its_metadata_and_none_is_an_error_while_leaving() -> None:
    clock, incident, later = Clock(), incident_of(bomb(0)), incident_of(bomb(0))
    console = console_on(incident, clock=clock)
    known = console.context.known
    async with console.run_test() as pilot:
        await until(pilot, lambda: known.incident is incident and not known.reading, "the cluster")
        clock.advance(SLOW_SECONDS)
        console.post_message(ClusterRead(FIRST, later))
        await until(pilot, lambda: known.incident is later, "the evidence")
        assert known.age(clock()) == SLOW_SECONDS
        await pilot.press("ctrl+r")
        await until(pilot, lambda: known.read_at == clock.now, "the next")
        await until(pilot, lambda: not known.reading, "its end")
        screens = console._screen_stack
        shown = screens.copy()
        screens.clear()
        console._told(ClusterRead(FIRST + 1, incident))
        screens.extend(shown)
