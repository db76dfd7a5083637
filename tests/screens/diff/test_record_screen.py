"""One record of two replicas: all its keys, folding, and values that are read whole."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from breakglass.screens.diff.record_page import RecordScreen
from breakglass.screens.diff.record_view import RecordView
from breakglass.services.divergence.entry import Item, RecordEntry, content_of
from tests.screens.diff.opened import LEDGER_LOGS, Opened, opened
from tests.screens.turns import is_inert, lines, text
from tests.unit.divergence.streams import entries, entry

pytestmark = pytest.mark.usefixtures("bare_pages")

HOSTILE = b'{"a": "\x1b[2J\x07[bold red]x[/]", "b": "\xe2\x80\xae"}' + b"\xff\x00"


def with_values(one: bytes | None, other: bytes | None) -> dict[int, Sequence[Item]]:
    """The logs of `opened`, where offset 100 holds these values."""
    first, second = ([*LEDGER_LOGS[broker]] for broker in (1, 2))
    first[100], second[100] = _valued(100, one, 2), _valued(100, other, 1)
    return {1: first, 2: second}


def _valued(offset: int, value: bytes | None, epoch: int) -> RecordEntry:
    return entry(offset, epoch=epoch)._replace(value=content_of(value, 10**8))


async def open_record(shown: Opened) -> RecordView:
    """Enter on the record under the cursor, until it is read."""
    await shown.press("enter")
    await shown.until(
        lambda: isinstance(shown.app.screen, RecordScreen) and not shown.app.screen.busy,
        "the record",
    )
    view: RecordView = shown.app.screen.query_one(RecordView)
    return view


async def test_every_field_stands_on_both_sides_with_its_sign() -> None:
    async with opened(size=(120, 30)) as shown:
        view = await open_record(shown)
        told = [line.split() for line in lines(shown.app)]
        assert ["!", "epoch", "2", "│", "1"] in told
        assert ["!", "new", "of", "b1", "│", "old", "of", "b2"] in told
        await shown.says("ledger-3 < b1 > b2", "different in epoch, value")
        view.redact(True)
        await shown.says("9 bytes")
        assert "new of b1" not in shown.told


async def test_narrow_the_sides_stand_below_each_other() -> None:
    async with opened(size=(60, 20)) as shown:
        await open_record(shown)
        told = [line.split() for line in lines(shown.app)]
        at = told.index(["!<", "epoch", "2"])
        assert told[at + 1] == ["!>", "1"]


async def test_what_differs_is_highlighted_to_the_character() -> None:
    async with opened(with_values(b"amount: 100", b"amount: 105"), size=(120, 30)) as shown:
        view = await open_record(shown)
        row = next(y for y in range(20) if "amount" in view.render_line(y).text)
        marked = [
            piece.text for piece in view.render_line(row) if piece.style and piece.style.underline
        ]
        assert marked == ["0", "5"]


async def test_v_turns_the_form_and_escape_goes_back() -> None:
    async with opened(with_values(b'{"a":1}', b'{"a":2}')) as shown:
        await open_record(shown)
        for sample in ('"a": 1', "7b 22 61 22"):
            await shown.press("v")
            await shown.says(sample)
        await shown.press("escape")
        await shown.is_back()


async def test_a_long_value_is_folded_and_scrolls() -> None:
    long = b"".join(b"line %d %s\n" % (number, b"x" * 150) for number in range(300))
    async with opened(with_values(long, long + b"more")) as shown:
        view = await open_record(shown)
        await shown.press("end")
        await shown.says("more")
        bottom = view.scroll_offset.y
        assert bottom > 300
        for key, at in (("up", bottom - 1), ("down", bottom), ("k", bottom - 1), ("j", bottom)):
            await shown.press(key)
            await shown.until(lambda at=at: view.scroll_offset.y == at, f"line {at}")
        await shown.press("pageup")
        await shown.until(lambda: view.scroll_offset.y < bottom - 3, "a page up")
        await shown.press("pagedown")
        await shown.until(lambda: view.scroll_offset.y == bottom, "a page down")
        await shown.press("home")
        await shown.until(lambda: view.scroll_offset.y == 0, "the top")


async def test_ten_megabytes_are_shown_in_part() -> None:
    large = b"x" * 10_000_000
    async with opened(with_values(large, large + b"y")) as shown:
        await open_record(shown)
        await shown.says("the first 65,536 of")


async def test_hostile_values_are_inert_in_every_form() -> None:
    async with opened(with_values(HOSTILE, b"[" * 100_000), size=(100, 30)) as shown:
        for _ in range(3):
            await open_record(shown)
            assert "value" in text(shown.app)
            assert is_inert(shown.app)
            await shown.press("escape")
            await shown.is_back()
            assert is_inert(shown.app)
            await shown.press("v")


async def test_while_it_is_read_escape_keeps_what_is_known() -> None:
    async with opened() as shown:
        shown.replicas.gate.opened.clear()
        await shown.press("enter")
        await shown.says("record at offset 100")
        await shown.press("escape")
        await shown.says("Stopped: ", "new of b1")


async def test_a_record_that_is_gone_is_told() -> None:
    async with opened() as shown:
        shown.replicas.logs = {1: entries(0, 90), 2: entries(0, 90)}
        await open_record(shown)
        await shown.says("Neither replica has")
