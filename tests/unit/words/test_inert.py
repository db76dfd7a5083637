"""Hostile text is shown and does nothing."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.words.inert import bounded, inert

TEXT = st.text(alphabet=st.characters(), max_size=60)


@given(TEXT)
def test_inert_text_is_printable_whatever_it_was(text: str) -> None:
    assert inert(text).isprintable()


@given(TEXT)
def test_inert_leaves_printable_text_as_it_is_and_is_stable(text: str) -> None:
    once = inert(text)
    assert inert(once) == once
    if text.isprintable():
        assert once == text


@pytest.mark.parametrize(
    ("hostile", "harmless"),
    [
        ("\x1b[31m", r"\x1b[31m"),
        ("a\nb\tc", r"a\nb\tc"),
        ("\u202ecod.exe", r"\u202ecod.exe"),
        ("\u2066x\u2069", r"\u2066x\u2069"),
        ("\x9b2J", r"\x9b2J"),
        ("zero\u200bwidth", r"zero\u200bwidth"),
        ("\udcff", r"\udcff"),
        ("[bold]plain[/bold]", "[bold]plain[/bold]"),
        ("Bestellungen-ä 注文", "Bestellungen-ä 注文"),
    ],
)
def test_what_acts_on_a_terminal_is_written_out(hostile: str, harmless: str) -> None:
    assert inert(hostile) == harmless


@given(TEXT, st.integers(min_value=0, max_value=40))
def test_bounded_text_is_inert_and_no_longer_than_its_limit(text: str, limit: int) -> None:
    shown = bounded(text, limit)
    assert shown.isprintable()
    assert len(shown) <= limit
    if len(inert(text)) <= limit:
        assert shown == inert(text)


@pytest.mark.parametrize(
    ("text", "limit", "shown"),
    [
        ("orders", 6, "orders"),
        ("payments", 6, "pay..."),
        ("payments", 2, ".."),
        ("\n" * 9, 5, r"\n..."),
    ],
)
def test_a_text_that_is_cut_says_so(text: str, limit: int, shown: str) -> None:
    assert bounded(text, limit) == shown


def test_ten_megabytes_cost_no_more_than_their_beginning() -> None:
    class Counted(str):
        __slots__ = ()

        def isprintable(self) -> bool:
            raise AssertionError("the whole of it was looked at")

    assert bounded(Counted("x" * 10_000_000), 10) == "xxxxxxx..."
