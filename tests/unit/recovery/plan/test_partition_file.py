"""JSON that people wrote: what is wrong, and in which line and column."""

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import MalformedInput, StorageError
from breakglass.services.recovery.plan.partition_file import parse_json, read_text

KIP_EXAMPLE = """{
"partitions": [
{
topic: "foo",
partitions: [0, 3, 5]
},
{
topic: "bar",
partitions: [0, 1, 4]
}
]
}
"""


def test_the_example_that_the_kip_prints_is_read() -> None:
    assert parse_json(KIP_EXAMPLE, "f.json", bare_keys=True) == {
        "partitions": [
            {"topic": "foo", "partitions": [0, 3, 5]},
            {"topic": "bar", "partitions": [0, 1, 4]},
        ]
    }


@pytest.mark.parametrize(
    ("text", "what"),
    [
        pytest.param('{"topic": "a", "topic": "b"}', 'the key "topic" stands twice', id="twice"),
        pytest.param('{"a": NaN}', "NaN is not a number", id="NaN"),
        pytest.param("[" * 200_000, "nested without end", id="nesting"),
        pytest.param(f'{{"a": {"9" * 5000}}}', "too many digits", id="digits"),
    ],
)
@pytest.mark.parametrize("bare_keys", [True, False])
def test_json_that_cannot_be_meant_is_refused(text: str, what: str, bare_keys: bool) -> None:
    with pytest.raises(MalformedInput, match=what):
        parse_json(text, "f.json", bare_keys=bare_keys)


awkward = st.text(alphabet='"\\{}[],: a\n\u2028', max_size=8)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | awkward,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(awkward, inner, max_size=3),
    max_leaves=5,
)


@given(json_values)
def test_tolerance_never_changes_what_strict_json_says(value: object) -> None:
    text = json.dumps(value)
    assert parse_json(text, "f.json", bare_keys=True) == value


identifiers = st.builds(
    str.__add__, st.sampled_from("aZ_$"), st.text(alphabet="bY_$09", max_size=6)
)


@given(st.dictionaries(identifiers, json_values, max_size=4))
def test_a_key_may_be_quoted_or_not(value: dict[str, object]) -> None:
    bare = ", ".join(f"{key} : {json.dumps(inner)}" for key, inner in value.items())
    assert parse_json(f"{{{bare}}}", "f.json", bare_keys=True) == value


def test_a_file_is_read_without_its_byte_order_mark_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "f.json"
    path.write_bytes(b"\xef\xbb\xbf{}")
    assert read_text(path) == "{}"
    path.write_bytes(b'{"a": "\xff"}')
    with pytest.raises(MalformedInput):
        read_text(path)
    with pytest.raises(StorageError):
        read_text(tmp_path / "none.json")
