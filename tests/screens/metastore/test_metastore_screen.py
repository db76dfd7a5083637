"""The screen of a ksqlDB service: its views, its differences, its failures; drawn harmlessly."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from textual.pilot import Pilot

from breakglass.screens.guard import RestoreMetastorePage
from breakglass.screens.widgets.consent import ConsentField
from breakglass.services.errors import ClusterError
from breakglass.services.metastore.glance import ServiceLook, command_topics
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.reader import Degradation
from breakglass.services.model import Unknown
from tests.kit.incidents import incident_of
from tests.screens.consoles import console_on
from tests.screens.metastore.canned import FILE, TOPIC, console_seeing, look_of, watch_that
from tests.screens.turns import is_inert, shows, text, until
from tests.unit.metastore.generating import Generator


@pytest.fixture
def records() -> list[CommandRecord]:
    return Generator(8, plain=True).records(12)


@asynccontextmanager
async def seeing(*looks: ServiceLook) -> AsyncIterator[Pilot[Any]]:
    """The screen of a service that looks so at each refresh, and like the last of *looks* then."""
    left = list(looks)
    with patch(
        "breakglass.screens.metastore.ServiceWatch",
        watch_that(lambda: left.pop(0) if len(left) > 1 else left[0]),
    ):
        async with console_seeing().run_test(size=(100, 30), notifications=True) as pilot:
            yield pilot


async def test_a_service_is_seen_in_its_views_with_its_dangers_first_and_difference_found(
    records: list[CommandRecord],
) -> None:
    """Without --write the command to restore it is copied, if there is a backup."""
    bad = CommandRecord(99, b'"stream/`B`/create"', b'{"statement":"x","version":99}')
    name = next(iter(look_of(records).metastore.sources))
    looks = (
        look_of(records),
        look_of(records, [*records[:5], records[6], *records[6:]]),
        look_of(
            [*records, bad], records, alarms=("topic has retention.ms=0",), wrong={name: "no topic"}
        ),
        look_of(records, [], backup=Unknown("there is none")),
    )
    async with seeing(*looks) as pilot:
        for words in ("the same as the topic", "12 commands", "Kind"):
            await shows(pilot, words)
        for words in ("Reads", "Statement", "Line"):
            await pilot.press("v")
            await shows(pilot, words)
        await pilot.press("V", "V", "V")
        await shows(pilot, "Kind")
        await pilot.press("R")
        await until(pilot, lambda: pilot.app.clipboard, "the command")
        assert pilot.app.clipboard == f"breakglass ksql restore '{FILE}' --write"
        assert not isinstance(pilot.app.screen, RestoreMetastorePage)

        await pilot.press("ctrl+r")
        await shows(pilot, "differ, the first")
        await pilot.press("n")
        await shows(pilot, "Offset")
        await until(pilot, lambda: ">!" in text(pilot.app).replace(" ", ""), "the cursor on it")

        await pilot.press("v", "ctrl+r")
        incompatible = Degradation.INCOMPATIBLE_COMMAND.value
        for words in ("retention.ms=0", incompatible, "1 behind", "wrong"):
            await shows(pilot, words)

        await pilot.press("ctrl+r")
        await shows(pilot, "there is none")
        await pilot.press("R")
        await shows(pilot, "no backup to restore")


async def test_a_look_that_fails_and_a_cluster_without_a_service_are_told() -> None:
    def fail() -> ServiceLook:
        raise ClusterError("no answer: try again")

    with patch("breakglass.screens.metastore.ServiceWatch", watch_that(fail)):
        async with console_seeing().run_test(size=(100, 30)) as pilot:
            await shows(pilot, "no answer: try again")
    async with console_on(incident_of(), start="metastore").run_test(size=(80, 24)) as pilot:
        await shows(pilot, "has no command topic")


async def test_hostile_commands_act_on_no_screen() -> None:
    statement = "CREATE STREAM `\\u001b]0;x\\u0007[bold]` (I INT) WITH (KAFKA_TOPIC='t');"
    value = f'{{"statement":"{statement}"}}'.encode()
    record = CommandRecord(0, b'"stream/`\\u001b[2J[red]`/create"', value, 5)
    other = [record._replace(value=b"\x1b[2J{}")]
    async with seeing(look_of([record], other)) as pilot:
        await shows(pilot, "1 differ")
        for _ in range(4):
            await pilot.press("v")
            await pilot.pause()
            assert is_inert(pilot.app)


def test_command_topics_are_found_by_their_names() -> None:
    topics = ["orders", TOPIC, "_confluent-ksql-x_command_topic", "_confluent-ksql-x"]
    assert command_topics(topics) == ("_confluent-ksql-default__command_topic", topics[2])


async def test_a_backup_that_cannot_be_read_is_told_before_anything_is_asked() -> None:
    console = console_on(incident_of())
    async with console.run_test(size=(80, 24)) as pilot:
        screen = RestoreMetastorePage(console.context, "default_", Path("/nowhere/a.bak"))
        await console.push_screen(screen)
        await shows(pilot, "Nothing was done")
        assert screen.query_one(ConsentField).disabled
        await pilot.press("enter")
        await until(pilot, lambda: console.screen is not screen, "the way back")
