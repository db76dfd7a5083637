"""The screen of a ksqlDB service: its views, its differences, its failures; drawn harmlessly."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.screens.metastore.restore import RestoreScreen
from breakglass.screens.widgets.consent import ConsentField
from breakglass.services.errors import ClusterError
from breakglass.services.metastore.log.reader import Degradation
from breakglass.services.metastore.looking import ServiceLook, command_topics
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.model import Unknown
from tests.kit.incidents import incident_of
from tests.screens.consoles import console_on
from tests.screens.metastore.canned import FILE, TOPIC, console_seeing, look_of, watch_that
from tests.screens.turns import text, until
from tests.unit.metastore.generating import Generator

Looks = Callable[[], ServiceLook]


@pytest.fixture
def records() -> list[CommandRecord]:
    return Generator(8, plain=True).records(12)


@pytest.fixture
def seeing(monkeypatch: pytest.MonkeyPatch) -> Callable[[Looks], BreakglassApp]:
    """A console on the screen, whose service looks as it is told."""

    def made(look: Looks) -> BreakglassApp:
        monkeypatch.setattr("breakglass.screens.metastore.screen.ServiceWatch", watch_that(look))
        return console_seeing()

    return made


async def shown(pilot: Pilot[Any], words: str) -> None:
    await until(pilot, lambda: words in text(pilot.app), words)


async def test_the_views_follow_each_other(
    seeing: Callable[[Looks], BreakglassApp], records: list[CommandRecord]
) -> None:
    console = seeing(lambda: look_of(records))
    async with console.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "the same as the topic")
        assert "12 commands" in text(console)
        assert "Kind" in text(console)
        await pilot.press("v")
        await shown(pilot, "Reads")
        await pilot.press("v")
        await shown(pilot, "Statement")
        await pilot.press("v")
        await shown(pilot, "Line")
        await pilot.press("V", "V", "V")
        await shown(pilot, "Kind")


async def test_a_difference_is_found_and_told(
    seeing: Callable[[Looks], BreakglassApp], records: list[CommandRecord]
) -> None:
    other = [*records[:5], records[6], *records[6:]]
    console = seeing(lambda: look_of(records, other))
    async with console.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "differ, the first")
        await pilot.press("n")
        await shown(pilot, "Offset")
        await until(pilot, lambda: ">!" in text(console).replace(" ", ""), "the cursor on it")


async def test_what_endangers_the_service_comes_first(
    seeing: Callable[[Looks], BreakglassApp], records: list[CommandRecord]
) -> None:
    bad = CommandRecord(99, b'"stream/`B`/create"', b'{"statement":"x","version":99}')
    name = next(iter(look_of(records).metastore.sources))
    console = seeing(
        lambda: look_of(
            [*records, bad],
            records,
            alarms=("topic has retention.ms=0",),
            wrong={name: "its topic t does not exist"},
        )
    )
    async with console.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "retention.ms=0")
        for words in (Degradation.INCOMPATIBLE_COMMAND.value, "1 behind", "wrong"):
            await shown(pilot, words)


async def test_a_look_that_fails_is_told(seeing: Callable[[Looks], BreakglassApp]) -> None:
    def fail() -> ServiceLook:
        raise ClusterError("nobody answers: try again")

    console = seeing(fail)
    async with console.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "nobody answers")


async def test_a_cluster_without_a_service_says_so() -> None:
    console = console_on(incident_of(), start="metastore")
    async with console.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "This cluster has no command topic")


async def test_without_a_backup_there_is_nothing_to_restore(
    seeing: Callable[[Looks], BreakglassApp], records: list[CommandRecord]
) -> None:
    console = seeing(lambda: look_of(records, [], backup=Unknown("there is none")))
    async with console.run_test(size=(80, 24), notifications=True) as pilot:
        await shown(pilot, "there is none")
        await pilot.press("R")
        await shown(pilot, "no backup to restore")


async def test_hostile_commands_act_on_no_screen(
    seeing: Callable[[Looks], BreakglassApp],
) -> None:
    statement = "CREATE STREAM `\\u001b]0;x\\u0007[bold]` (I INT) WITH (KAFKA_TOPIC='t');"
    value = f'{{"statement":"{statement}"}}'.encode()
    record = CommandRecord(0, b'"stream/`\\u001b[2J[red]`/create"', value, 5)
    console = seeing(lambda: look_of([record], [record._replace(value=b"\x1b[2J{}")]))
    async with console.run_test(size=(100, 30)) as pilot:
        await shown(pilot, "1 differ")
        for _ in range(4):
            await pilot.press("v")
            await pilot.pause()
            assert "\x1b" not in text(console)


def test_command_topics_are_found_by_their_names() -> None:
    topics = ["orders", TOPIC, "_confluent-ksql-x_command_topic", "_confluent-ksql-x"]
    assert command_topics(topics) == ("_confluent-ksql-default__command_topic", topics[2])


async def test_without_write_the_command_is_copied_and_nothing_opens(
    seeing: Callable[[Looks], BreakglassApp],
    records: list[CommandRecord],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    console = seeing(lambda: look_of(records))
    copied: list[str] = []
    monkeypatch.setattr(console, "copy_to_clipboard", copied.append)
    async with console.run_test(size=(80, 24)) as pilot:
        await shown(pilot, "the same as the topic")
        await pilot.press("R")
        await until(pilot, lambda: copied, "the command")
        assert copied == [f"breakglass metastore restore '{FILE}' --write"]
        assert not isinstance(console.screen, RestoreScreen)


async def test_a_backup_that_cannot_be_read_is_told_before_anything_is_asked() -> None:
    console = console_on(incident_of())
    async with console.run_test(size=(80, 24)) as pilot:
        screen = RestoreScreen(console.context, "default_", Path("/nowhere/a.bak"))
        await console.push_screen(screen)
        await shown(pilot, "Nothing was done")
        assert screen.query_one(ConsentField).disabled
        await pilot.press("enter")
        await until(pilot, lambda: console.screen is not screen, "the way back")
