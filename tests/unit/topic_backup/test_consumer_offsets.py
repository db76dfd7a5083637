"""Group offsets as the original writes them (the golden files are in test_golden)."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import MalformedInput
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.consumer_offsets import (
    decode,
    encode,
    hash_order,
    read,
    update,
)
from breakglass.services.topic_backup.folder import LocalFolder

groups = st.dictionaries(st.text(), st.integers(-(2**63), 2**63 - 1))


@given(groups)
def test_what_was_written_is_read(offsets: dict[str, int]) -> None:
    assert decode(encode(offsets), "file") == offsets


@given(groups)
def test_it_is_json(offsets: dict[str, int]) -> None:
    assert json.loads(encode(offsets)) == offsets


def test_control_characters_are_escaped_as_jackson_does() -> None:
    assert encode({'\x1f\n"\\u001f': 1}) == b'{"\\u001F\\n\\"\\\\u001f":1}'


def test_no_file_and_an_empty_file_hold_no_groups(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    assert read(folder, 0) == {}
    (tmp_path / "consumer_offsets_partition_000").write_bytes(b"")
    assert read(folder, 0) == {}


def test_a_partition_without_groups_has_a_file_and_one_with_groups_keeps_them(
    tmp_path: Path,
) -> None:
    """Kafka Backup's source task throws at each record of a partition without a file."""
    folder = LocalFolder(tmp_path)
    group_history.update(folder, {0: {}, 1: {"g": 7}})
    assert (tmp_path / "consumer_offsets_partition_000").read_bytes() == b"{}"
    group_history.update(folder, {0: {}, 1: {}, 2: {}})
    assert (tmp_path / "consumer_offsets_partition_001").read_bytes() == b'{"g":7}'
    assert (tmp_path / "consumer_offsets_partition_002").read_bytes() == b"{}"


def test_groups_keep_their_place_and_new_ones_follow(tmp_path: Path) -> None:
    folder = LocalFolder(tmp_path)
    update(folder, 0, {"b": 1})
    update(folder, 0, {"a": 2, "b": 3})
    assert (tmp_path / "consumer_offsets_partition_000").read_bytes() == b'{"b":3,"a":2}'


def test_the_table_grows_as_javas_does() -> None:
    """More than three quarters of 16 buckets, and "p" moves from bucket 0 to 16."""
    assert hash_order([*"abcdefghijk", "p"]) == ["p", *"abcdefghijk"]
    assert hash_order([*"abcdefghijkl", "p"]) == [*"abcdefghijkl", "p"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b'{"g": 1,}', "line 1, column"),
        (b"[1]", "not an object"),
        (b'{"g": "1"}', "the offset of group 'g' is no number"),
        (b'{"g": true}', "no number"),
        (b'{"g": 1.0}', "no number"),
        (b"\xff\xfe", "no JSON"),
        (b'{"g":' * 100_000, "no JSON"),
        (b'{"g": ' + b"1" * 5000 + b"}", "no JSON"),
    ],
)
def test_what_is_no_group_file_is_refused(content: bytes, reason: str) -> None:
    with pytest.raises(MalformedInput, match=reason):
        decode(content, "file")
