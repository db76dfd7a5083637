"""Keys, values and headers in words: inert, bounded, and JSON as it was written."""

from __future__ import annotations

import json
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.words.inert import inert
from breakglass.services.words.record_text import (
    EMPTY,
    NULL,
    TextForm,
    TextLimits,
    hex_lines,
    preview,
    shown,
)

HOSTILE = [
    "\x1b[2J",
    "[bold red]",
    "\u202edaol",
    "\x00\x07\x9b",
    "\ud7ff\u200b\ufeff",
    "[/]\\[",
    "\r\n\t",
]
bytes_of_any_kind = st.one_of(
    st.binary(max_size=300),
    st.text(max_size=200).map(lambda text: text.encode("utf-8", "surrogatepass")),
    st.lists(st.sampled_from(HOSTILE), max_size=20).map(lambda parts: "".join(parts).encode()),
)
forms = st.sampled_from(TextForm)
json_values = st.recursive(
    st.none()
    | st.booleans()
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.integers()
    | st.text(),
    lambda held: st.lists(held, max_size=4) | st.dictionaries(st.text(), held, max_size=4),
    max_leaves=15,
)


def shown_all(content: bytes, form: TextForm) -> tuple[str, ...]:
    return shown(content, len(content), form).lines


@given(bytes_of_any_kind, forms, st.integers(0, 10**7), st.integers(8, 90))
def test_whatever_bytes_hold_is_inert_and_bounded(
    kept: bytes, form: TextForm, more: int, limit: int
) -> None:
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


@pytest.mark.parametrize("written", ["[", '{"a":', "  "])
def test_json_that_ends_early_is_text(written: str) -> None:
    assert "it ends at character" in shown(written.encode(), len(written), TextForm.JSON).note


def test_the_beginning_of_cut_json_still_has_its_lines() -> None:
    whole = json.dumps({"a": ["x" * 50] * 50}).encode()
    told = shown(whole[:200], len(whole), TextForm.JSON)
    assert told.lines[:2] == ("{", '  "a": [')
    assert told.note == f"the first 200 of {len(whole):,} bytes are shown"


@pytest.mark.parametrize(
    "bomb",
    [b"[" * 200_000, b'{"a":' * 50_000, b"[[]," * 50_000, b'"' + b"\\a" * 100_000, b"-" * 200_000],
)
def test_hostile_json_is_done_at_once(bomb: bytes) -> None:
    begun = time.process_time()
    told = shown(bomb, len(bomb), TextForm.JSON)
    preview(bomb, len(bomb), TextForm.JSON, 80)
    assert len(told.lines) <= TextLimits().lines
    assert told.note
    assert time.process_time() - begun < 1.0


def test_bytes_in_hex_have_their_place_and_what_is_printable_of_them() -> None:
    first, second = hex_lines(b'{"a":1}\n' * 2 + b"\xff", 16)
    assert first == (
        '00000000  7b 22 61 22 3a 31 7d 0a  7b 22 61 22 3a 31 7d 0a  |{"a":1}.{"a":1}.|'
    )
    assert second.split() == ["00000010", "ff", "|.|"]
    narrow = shown(b'{"a":1}\n', 8, TextForm.HEX, TextLimits(hex_bytes=8))
    assert narrow.lines == ('00000000  7b 22 61 22  3a 31 7d 0a  |{"a":1}.|',)


def test_null_and_empty_are_told_apart() -> None:
    assert shown(None, 0, TextForm.HEX).lines == (NULL,)
    assert shown(b"", 0, TextForm.JSON).lines == (EMPTY,)
    assert (preview(None, 0, TextForm.TEXT, 9), preview(b"", 0, TextForm.TEXT, 9)) == (NULL, EMPTY)


def test_a_character_that_was_cut_in_two_is_no_damage() -> None:
    assert shown("é".encode()[:1], 2, TextForm.TEXT).lines == ("",)
    assert shown("é".encode()[:1], 1, TextForm.TEXT).lines == (r"\xc3",)


def test_the_forms_follow_each_other_round_and_round() -> None:
    assert [form.next for form in TextForm] == [TextForm.JSON, TextForm.HEX, TextForm.TEXT]
