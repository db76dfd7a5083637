"""Keys in pieces, by a clock that is moved by hand; one key at a time, but for stuck widgets."""

import asyncio
from collections.abc import Iterator
from threading import Event
from typing import ClassVar

import pytest
from textual._xterm_parser import XTermParser
from textual.app import App, ComposeResult
from textual.containers import Vertical
from textual.events import Key, Paste
from textual.widgets import Input, Static
from typing_extensions import override

from breakglass.console.driver import (
    ESC,
    ESCAPE_SECONDS,
    PIECES_SECONDS,
    KeyPieces,
    wait_until_settled,
)
from tests.kit.clock import Clock

GAP = 0.3
"""Longer than Esc is waited with, shorter than its rest is waited for."""
ARROWS = ["\x1b[A", "\x1b[B", "\x1b[C", "\x1b[D"]
KEYS = [
    *ARROWS,
    "\x1b[F",
    "\x1b[5~",
    "\x1b[1;5C",
    "\x1bOP",
    "\x1bOR",
    "\x1bOF",
    "\x1b[[A",
    "\x1b[Z",
]


def typed(*pieces: str, gap: float = GAP) -> list[str]:
    clock = Clock()
    keys = KeyPieces(clock)

    def come() -> Iterator[str]:
        for piece in pieces:
            yield from keys.feed(piece)
            clock.advance(gap)
            yield from keys.tick()
        clock.advance(PIECES_SECONDS)
        yield from keys.tick()

    return list(come())


@pytest.mark.parametrize("key", KEYS)
def test_a_key_in_pieces_is_that_key_or_none(key: str) -> None:
    assert typed(key) == [key]
    assert typed(ESC, *key[1:]) == [ESC]
    assert typed(ESC, key[1:]) == [ESC]
    assert typed(key[:2], key[2:]) == [key]
    assert typed(*key, gap=ESCAPE_SECONDS / 2) == [key]


def test_what_somebody_types_after_esc_is_typed() -> None:
    assert typed(ESC, "o", "rders") == [ESC, "o", "rders"]
    assert typed(ESC, "O", "rders") == [ESC, "Orders"]
    assert typed(ESC, "O") == [ESC, "O"]
    assert typed(ESC, "[A", gap=PIECES_SECONDS) == [ESC, "[A"]
    assert typed(ESC, ESC, "q") == [ESC, ESC, "q"]
    assert typed("q\x1b\x1bq") == ["q", ESC, "\x1bq"]


def test_what_is_pasted_is_no_key() -> None:
    pasted = "\x1b[200~a\x1b", "[B\x1bO\x1b[201", "~\x1b[B"
    assert "".join(typed(*pasted)) == "\x1b[200~a[BO\x1b[201~\x1b[B"


@pytest.mark.parametrize("inside", ["x", "orders-0 lose 50\n", "", ESC, "\x1b[A", "q" * 20_000])
def test_a_paste_is_handed_on_as_a_whole_and_the_next_key_is_a_key(inside: str) -> None:
    pasted = f"\x1b[200~{inside}\x1b[201~"
    parser = XTermParser()
    for pieces in ((pasted,), (pasted[:3], pasted[3:9], pasted[9:]), (pasted[:-2], pasted[-2:])):
        found = typed(*pieces, "q")
        assert ESC not in found
        told = [message for text in found for message in parser.feed(text)]
        assert [type(message) for message in told] == [Paste, Key]


def test_a_paste_whose_end_is_lost_ends_by_itself() -> None:
    parser = XTermParser()
    found = typed("\x1b[200~never", gap=PIECES_SECONDS) + typed("q")
    told = [message for text in found for message in parser.feed(text)]
    assert [type(message) for message in told] == [Paste, Key]


BUSY_SECONDS = 1.5
"""Longer than any wait that counts seconds could be; what takes longer still fails nothing."""


class Listed(Static):
    """Passes keys on, after the machine was busy with something else."""

    can_focus = True

    def on_key(self, event: Key) -> None:
        if event.key == "slash":
            Event().wait(BUSY_SECONDS)


class Filtered(App[None]):
    """A list and its field, which `/` focuses, as `FilteredPage` does."""

    BINDINGS: ClassVar = [("slash", "filter", "filter"), ("s", "stick", "stick")]

    def __init__(self) -> None:
        super().__init__()
        self.never = asyncio.Event()

    @override
    def compose(self) -> ComposeResult:
        with Vertical():
            yield Listed("list")
            yield Input()

    def action_filter(self) -> None:
        self.query_one(Input).focus()

    def action_stick(self) -> None:
        self.query_one(Listed).call_later(self.never.wait)


async def type_keys(app: App[None], *keys: str) -> None:
    """Type *keys* as a driver does: from its own thread, each after the app has settled."""
    loop, ending = asyncio.get_running_loop(), Event()

    def read() -> None:
        for key in keys:
            loop.call_soon_threadsafe(app.simulate_key, key)
            wait_until_settled(app, loop, ending)

    await asyncio.to_thread(read)


async def test_a_key_after_a_slow_key_goes_where_the_slow_key_led() -> None:
    async with Filtered().run_test() as pilot:
        pilot.app.query_one(Listed).focus()
        await pilot.pause()

        await type_keys(pilot.app, "slash", *"typed")
        await pilot.pause()

        assert pilot.app.query_one(Input).value == "typed"


async def test_no_key_waits_once_the_session_ends() -> None:
    app = Filtered()
    async with app.run_test() as pilot:
        app.query_one(Listed).focus()
        await pilot.pause()
        app.simulate_key("s")
        await pilot.pause()
        ending = Event()
        ending.set()

        await asyncio.to_thread(wait_until_settled, app, asyncio.get_running_loop(), ending)

        app.never.set()
