"""Consoles on canned incidents: what an operator sees, without a cluster behind it."""

import time
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, cast

from textual.message import Message
from textual.pilot import Pilot

from breakglass.console.app import NO_KEYS, BreakglassApp
from breakglass.console.checkpoint_text import CommandText
from breakglass.screens.context import Context, Known
from breakglass.screens.terminal import Terminal
from breakglass.services.errors import BreakglassError
from breakglass.services.incident.elections_seen import Observation
from breakglass.services.incident.incident import Incident
from breakglass.services.model import TopicPartition
from breakglass.services.session import Power, ReadAccess
from tests.screens.turns import flat, hides, lines, opens, shows, until

FAR_AWAY = 3_600.0
"""Seconds until the next refresh: no test waits for one it did not ask for."""


@dataclass
class CannedWatch:
    """Gives the next of *readings* at each refresh, and the last one ever after."""

    readings: Sequence[Incident | BreakglassError]
    asked: list[bool] = field(default_factory=list)
    """Whether everything was to be read, for each refresh."""
    closed: bool = False
    gone: tuple[int, ...] = ()
    agreed_to: dict[TopicPartition, int] = field(default_factory=dict)

    def read(
        self, before: Incident | None = None, *, everything: bool = False
    ) -> Iterator[Incident]:
        place = min(len(self.asked), len(self.readings) - 1)
        self.asked.append(everything)
        told = self.readings[place]
        if isinstance(told, BreakglassError):
            raise told
        yield told

    def declare_gone(self, brokers: Collection[int]) -> None:
        self.gone = tuple(brokers)

    def agreed(self, designees: Mapping[TopicPartition, int]) -> None:
        self.agreed_to.update(designees)

    def acknowledge(self) -> tuple[Observation, ...]:
        told = [reading for reading in self.readings if isinstance(reading, Incident)]
        return tuple([observation.noted_by("me@here", 1) for observation in told[-1].observations])

    def close(self) -> None:
        self.closed = True


def console_on(
    *readings: Incident | BreakglassError,
    access: ReadAccess | None = None,
    power: Power | None = None,
    theme: str = "breakglass-dark",
    terminal: Terminal | None = None,
    start: str = "offline",
    state_folder: Path | None = None,
    clock: Callable[[], float] = time.monotonic,
    keys: Mapping[str, str] = NO_KEYS,
) -> BreakglassApp:
    """A console whose refreshes give *readings*; it begins on the screen *start*.

    Without *access* a screen that reads the cluster by itself cannot.
    """
    context = Context(
        cast("ReadAccess", access),
        CannedWatch(readings),
        terminal or Terminal(),
        CommandText(),
        power,
        state_folder=state_folder,
        clock=clock,
        known=Known(interval=FAR_AWAY),
    )
    return BreakglassApp(context, theme=theme, start=start, keys=keys)


@dataclass
class Operated:
    """A console as somebody works with it: keys are pressed, words come and go."""

    pilot: Pilot[Any]

    @property
    def console(self) -> BreakglassApp:
        return cast("BreakglassApp", self.pilot.app)

    @property
    def text(self) -> str:
        """What is to be seen, on one line: sentences are wrapped."""
        return flat(self.console)

    @property
    def lines(self) -> list[str]:
        return lines(self.console)

    async def press(self, *keys: str) -> None:
        await self.pilot.press(*keys)

    async def until(self, so: Any, what: str) -> None:
        await until(self.pilot, so, what)

    async def shows(self, *words: str) -> None:
        for one in words:
            await shows(self.pilot, one)

    async def hides(self, words: str) -> None:
        await hides(self.pilot, words)

    async def opens(self, key: str, kind: type[Any]) -> Any:
        await self.press(key)
        return await opens(self.pilot, kind)


class Asked:
    """Messages of one kind that came to the console, which does nothing about them."""

    def __init__(self, console: Any, kind: type[Message]) -> None:
        self.messages: list[Any] = []
        post = console.post_message

        def keep(message: Message) -> bool:
            if isinstance(message, kind):
                self.messages.append(message)
                return True
            return bool(post(message))

        console.post_message = keep


def watch_of(console: BreakglassApp) -> CannedWatch:
    return cast("CannedWatch", console.context.watch)
