"""The offline partitions on canned incidents: opening them, and reading what they show."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import asynccontextmanager
from typing import Any

from textual.message import Message
from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.screens.offline.partition_list import PartitionList
from breakglass.services.errors import BreakglassError
from breakglass.services.incident.incident import Incident
from tests.screens.consoles import console_on
from tests.screens.turns import lines, until

Opened = tuple[Pilot[Any], BreakglassApp]


@asynccontextmanager
async def opened(  # type: ignore[no-untyped-def]
    *readings: Incident | BreakglassError, size: tuple[int, int] = (80, 24), **options: Any
):
    """The console on its list of offline partitions, once it shows something."""
    console = console_on(*readings, **options)
    async with console.run_test(size=size) as pilot:
        await until(pilot, lambda: shown_list(console).rows, "the list")
        least = min(len(shown_list(console).rows) + 1, 6)
        await until(pilot, lambda: shown_list(console).size.height >= least, "its room")
        yield pilot, console


def shown_list(console: BreakglassApp) -> PartitionList:
    return console.screen.query_one(PartitionList)


def listed(console: BreakglassApp) -> list[str]:
    """The names in the list, from top to bottom, as far as they are in sight."""
    return [line.strip().split("  ")[0] for line in names(console)]


def names(console: BreakglassApp) -> Iterator[str]:
    """From where the names begin, each line of the list."""
    shown = lines(console)
    header = next(place for place, line in enumerate(shown) if " Topic-partition" in line)
    begin = shown[header].index(" Topic-partition")
    for line in shown[header + 1 :]:
        if line.startswith("─") or not line.strip():
            return
        yield line[begin:]


def under_cursor(console: BreakglassApp) -> str:
    """The line the cursor is on."""
    return next(line for line in lines(console) if line.startswith(">"))


class Asked:
    """Messages of one kind that came to the console, which does nothing about them."""

    def __init__(self, console: BreakglassApp, kind: type[Message]) -> None:
        self.messages: list[Any] = []
        post = console.post_message

        def keep(message: Message) -> bool:
            if isinstance(message, kind):
                self.messages.append(message)
                return True
            return post(message)

        console.post_message = keep  # type: ignore[method-assign]
