"""Where values of a JSON text stand."""

from __future__ import annotations

import json
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.recovery.plan.read_back import Path, line_and_column, places

values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def paths_of(value: Any, path: Path = ()) -> list[Path]:
    members: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    return [path, *(pair for key, inner in members for pair in paths_of(inner, (*path, key)))]


@given(values, st.sampled_from([None, 0, 3]), st.booleans())
def test_every_value_of_any_text_is_placed(value: Any, indent: int | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    found = list(places(text))
    assert [path for path, _ in found] == paths_of(value)
    for path, index in found:
        if path and isinstance(path[-1], str):
            assert json.JSONDecoder().raw_decode(text, index)[0] == path[-1]


def test_a_member_stands_where_its_key_does_and_an_element_where_it_begins() -> None:
    text = '{"a": [10, {"b": "]"}]}'
    assert dict(places(text)) == {
        (): 0, ("a",): 1, ("a", 0): 7, ("a", 1): 11, ("a", 1, "b"): 12,
    }  # fmt: skip


def test_a_key_that_stands_twice_is_placed_twice() -> None:
    assert [index for path, index in places('{"a": 1, "a": 2}') if path == ("a",)] == [1, 9]


def test_lines_and_columns_are_counted_from_one() -> None:
    assert [line_and_column("ab\ncd", index) for index in (0, 1, 3, 4)] == [
        (1, 1), (1, 2), (2, 1), (2, 2),
    ]  # fmt: skip
