"""How amounts, figures, hostile texts and records are written."""

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.screens.help import LEGEND
from breakglass.services.model import Role, Unknown
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.recovery.judgement.loss import UnreadRecords
from breakglass.services.words import figures
from breakglass.services.words.figures import (
    count,
    duration_ms,
    rate_bytes,
    size_bytes,
    total_text,
    unread_figure,
    unread_told,
    unread_total,
)
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text
from breakglass.services.words.record_text import (
    TextForm,
    TextLimits,
    hex_lines,
    preview,
    shown,
)
from tests.kit.work import calls_of

AMOUNTS: tuple[tuple[Callable[[str], float], dict[str, float], tuple[str, ...]], ...] = (
    (
        duration_ms,
        {"5ms": 5, "45s": 45_000, "90m": 5_400_000, "1.5h": 5_400_000, "30d": 2_592_000_000},
        ("", "30", "d", "-1d", "1w", "1 d", "\u0663d"),
    ),
    (
        size_bytes,
        {
            "0": 0,
            "4096": 4096,
            "7B": 7,
            "500kB": 500_000,
            "1GiB": 2**30,
            "1.5GB": 15 * 10**8,
            "5KB": 5_000,
            "5K": 5_000,
            "5k": 5_000,
            "5KiB": 5_120,
            "5Ki": 5_120,
            "1G": 10**9,
        },
        ("", "-1", "1gb", "big", "1B/s", "1i", "1iB"),
    ),
    (
        rate_bytes,
        {"20MB/s": 2e7, "1GiB/s": 2.0**30, "7B/s": 7, "52428800": 52428800, "unlimited": 0, "0": 0},
        ("", "20MB", "-1MB/s", "fast", "20mb/s"),
    ),
)


@pytest.mark.parametrize(("read", "amounts", "wrong"), AMOUNTS)
def test_an_amount_has_a_unit_and_anything_else_is_refused(
    read: Callable[[str], float], amounts: dict[str, float], wrong: tuple[str, ...]
) -> None:
    assert {text: read(text) for text in amounts} == amounts
    for text in wrong:
        with pytest.raises(ValueError, match=r"30d|10GB|20MB/s"):
            read(text)
    assert duration_ms("0.5", bare="s") == 500


SILENT = Unknown("b3 is silent")


@pytest.mark.parametrize(
    ("write", "texts"),
    [
        (figures.shown, {SILENT: "?", None: "-", 0: "0", True: "yes", Role.ISR: "isr"}),
        (count, {SILENT: "?", None: "-", 0: "0", 1874: "1,874"}),
        (total_text, {(1, 2): "3", (1, SILENT): ">= 1", (SILENT,): "?", (): "0"}),
        (
            time_text,
            {SILENT: "?", None: "-", -1: "-", 0: "1970-01-01 00:00:00Z", 1 << 62: str(1 << 62)},
        ),
    ],
)
def test_unknown_none_and_zero_differ(write: Callable[[Any], str], texts: dict[Any, str]) -> None:
    assert {value: write(value) for value in texts} == texts


@pytest.mark.parametrize(
    ("brokers", "at_least", "text"),
    [
        *(((), 0, "0"), ((3,), 0, "b3"), ((3,), SILENT, "b3"), ((2, 3), 1_234, "b2,b3 >= 1,234")),
        *(((2, 3, 4), 0, "3 brokers"), ((), 25, ">= 25")),
    ],
)
def test_who_is_unread_is_named_and_a_bound_of_zero_is_not_said(
    brokers: tuple[int, ...], at_least: int | Unknown, text: str
) -> None:
    assert unread_figure(brokers, at_least) == text


@pytest.mark.parametrize(
    ("bounds", "text", "sentence"),
    [
        ([UnreadRecords((), 0)], "0", "nothing unread"),
        ([UnreadRecords((3,), 0)], "b3", "b3 unread"),
        ([UnreadRecords((3,), SILENT)], "b3", "b3 unread"),
        (
            [UnreadRecords((3,), 25), UnreadRecords((2,), SILENT)],
            "b2,b3 >= 25",
            "b2,b3 unread (at least 25)",
        ),
        ([UnreadRecords((), 25)], ">= 25", "at least 25 in no replica"),
    ],
)
def test_all_who_are_unread_are_said(bounds: list[UnreadRecords], text: str, sentence: str) -> None:
    assert unread_total(bounds) == text
    assert unread_told(bounds) == sentence


TEXT = st.text(alphabet=st.characters(), max_size=60)


@given(TEXT)
def test_inert_text_is_printable_stable_and_as_it_was_if_that_was_printable(text: str) -> None:
    once = inert(text)
    assert once.isprintable()
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


ROOM = 66
"""Characters beside the longest word in 80 columns."""


def test_every_verdict_and_role_is_explained_in_a_line_of_80_columns() -> None:
    words = {term.word for term in LEGEND}
    assert {verdict.value for verdict in Verdict} <= words
    assert {role.value for role in Role} - {Role.ISR.value} <= words
    assert [term for term in LEGEND if len(term.meaning) > ROOM] == []


MOST_CALLS = 400_000
"""Ten times as many as it takes."""
HOSTILE = [
    *("\x1b[2J", "[bold red]", "\u202edaol", "\0\a\x9b", "\ud7ff\u200b\ufeff", "[/]\\[", "\r\n")
]
bytes_of_any_kind = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(st.sampled_from(HOSTILE), max_size=20).map(lambda parts: "".join(parts).encode()),
)
scalars = st.none() | st.booleans() | st.integers() | st.text()
json_values = st.recursive(
    scalars | st.floats(allow_nan=False, allow_infinity=False),
    lambda held: st.lists(held, max_size=4) | st.dictionaries(st.text(), held, max_size=4),
    max_leaves=15,
)


def shown_all(content: bytes, form: TextForm) -> tuple[str, ...]:
    return shown(content, len(content), form).lines


@given(bytes_of_any_kind, st.sampled_from(TextForm), st.integers(0, 10**7), st.integers(8, 90))
def test_what_is_shown_is_inert(kept: bytes, form: TextForm, more: int, limit: int) -> None:
    told = shown(kept, len(kept) + more, form, TextLimits(lines=5, columns=20))
    assert len(told.lines) <= 5
    assert all(len(line) <= 20 for line in told.lines)
    told_in_brief = preview(kept, len(kept) + more, form, limit)
    assert len(told_in_brief) <= limit
    for line in (*told.lines, told_in_brief):
        assert line.isprintable()
    assert bool(more and kept) <= bool(told.note)
    assert not (more and kept) or told_in_brief.endswith("...")


@given(json_values, st.sampled_from([None, 1]))
def test_json_is_spread_as_it_was_written(value: object, indent: int | None) -> None:
    written = json.dumps(value, indent=indent)
    told = shown(written.encode(), len(written), TextForm.JSON, TextLimits(10**6, 10**6, 10**6))
    assert told.note == ""
    assert list(told.lines) == [inert(line) for line in json.dumps(value, indent=2).split("\n")]


@pytest.mark.parametrize("written", ["1e400", "9" * 5_000, '{"a":1,"a":2}', '"\\ud800"', "-0.0"])
def test_json_keeps_digits_duplicates_and_escapes(written: str) -> None:
    told = shown(written.encode(), len(written), TextForm.JSON, TextLimits(columns=10_000))
    assert "".join(line.strip() for line in told.lines).replace(": ", ":") == written


@pytest.mark.parametrize(
    ("written", "at"),
    [
        ("[1,]", 3), ('{"a" 1}', 5), ("{}x", 2), ('{"a":1,}', 7), ("[1 2]", 3), ("01", 0),
        ("]", 0), ("{1:2}", 1), ('["\n"]', 1), ("nul", 0), ("[}", 1), (",", 0), ("1,2", 1),
    ],
)  # fmt: skip
def test_what_is_no_json_is_shown_as_text_with_the_place(written: str, at: int) -> None:
    told = shown(written.encode(), len(written), TextForm.JSON)
    assert told.note == f"not JSON (at character {at}), so it is shown as text"
    assert told.lines == shown_all(written.encode(), TextForm.TEXT)
    with pytest.raises(json.JSONDecodeError):
        json.loads(written)


@pytest.mark.parametrize(
    "bomb",
    [b"[" * 200_000, b'{"a":' * 50_000, b"[[]," * 50_000, b'"' + b"\\a" * 100_000, b"-" * 200_000],
    ids=["lists", "objects", "lists of two", "escapes", "signs"],
)
def test_hostile_json_is_done_at_once(bomb: bytes) -> None:
    told = shown(bomb, len(bomb), TextForm.JSON)
    assert len(told.lines) <= TextLimits().lines
    assert told.note
    assert calls_of(lambda: shown(bomb, len(bomb), TextForm.JSON)) < MOST_CALLS
    assert calls_of(lambda: preview(bomb, len(bomb), TextForm.JSON, 80)) < MOST_CALLS


def test_bytes_in_hex_have_their_place_and_what_is_printable_of_them() -> None:
    _, second = hex_lines(b'{"a":1}\n' * 2 + b"\xff", 16)
    assert second.split() == ["00000010", "ff", "|.|"]
    narrow = shown(b'{"a":1}\n', 8, TextForm.HEX, TextLimits(hex_bytes=8))
    assert narrow.lines == ('00000000  7b 22 61 22  3a 31 7d 0a  |{"a":1}.|',)
