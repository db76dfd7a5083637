"""The offline partitions on canned incidents: opening them, and reading what they show."""

from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from typing import Any

from textual.message import Message

from breakglass.screens.offline.partition_list import PartitionList
from breakglass.services.errors import BreakglassError
from breakglass.services.incident.incident import Incident
from tests.screens.consoles import Asked, Operated, console_on


class OfflinePage(Operated):
    @property
    def table(self) -> PartitionList:
        return self.console.screen.query_one(PartitionList)

    @property
    def under_cursor(self) -> str:
        return next(line for line in self.lines if line.startswith(">"))

    @property
    def names(self) -> list[str]:
        """The names in the list, from top to bottom, as far as they are in sight."""
        return [line.strip().split("  ")[0] for line in self.rows()]

    def rows(self) -> Iterator[str]:
        """From where the names begin, each line of the list."""
        shown = self.lines
        header = next(place for place, line in enumerate(shown) if " Topic-partition" in line)
        begin = shown[header].index(" Topic-partition")
        for line in shown[header + 1 :]:
            if line.startswith("─") or not line.strip():
                return
            yield line[begin:]

    def asked(self, kind: type[Message]) -> Asked:
        return Asked(self.console, kind)


@asynccontextmanager
async def opened(
    *readings: Incident | BreakglassError, size: tuple[int, int] = (80, 24), **options: Any
) -> AsyncIterator[OfflinePage]:
    console = console_on(*readings, **options)
    async with console.run_test(size=size) as pilot:
        page = OfflinePage(pilot)
        await page.until(lambda: page.table.rows, "the list")
        least = min(len(page.table.rows) + 1, 6)
        await page.until(lambda: page.table.size.height >= least, "its room")
        yield page
