"""The files of KIP-1275 that name partitions and elections."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.errors import MalformedInput
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.plan.partition_file import (
    Election,
    elections_of,
    parse_partitions,
    read_elections,
)


def test_the_kips_election_file_is_read_with_and_without_leaders(tmp_path: Path) -> None:
    path = tmp_path / "elections.json"
    path.write_text(
        """{"partitions":
        [{"topic": "foo", "partition": 1, "designatedLeader": 0},
         {"topic": "foobar", "partition": 2}],
        "version": 1}"""
    )
    assert read_elections(path) == (
        Election(TopicPartition("foo", 1), 0),
        Election(TopicPartition("foobar", 2), None),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[]", 'f.json has no list "partitions"', id="no object"),
        pytest.param('{"partitions": {}}', 'has no list "partitions"', id="no list"),
        pytest.param('{"partitions": []}', "names no partition", id="R23: an empty list"),
        pytest.param('{"partitions": [7]}', "entry 1: it must be an object", id="no entry"),
        pytest.param('{"partitions": [{}]}', 'entry 1: it has no "topic"', id="no topic"),
        *(
            pytest.param('{"partitions": [' + entry + "]}", said, id=entry)
            for entry, said in (
                ('{"topic": "", "partitions": [0]}', "its topic is empty"),
                ('{"topic": "a/b", "partitions": [0]}', '"a/b" is no name of a topic'),
                ('{"topic": 5, "partitions": [0]}', "5 is no name"),
                ('{"topic": "a"}', r'entry 1 \(a\): it needs a list "partitions"'),
                ('{"topic": "a", "partitions": null}', 'it needs a list "partitions"'),
                ('{"topic": "a", "partitions": []}', "it lists no partition"),
                ('{"topic": "a", "partitions": [0, -1]}', '"partitions" is -1, which is negative'),
                ('{"topic": "a", "partitions": [true]}', "must be a whole number, not true"),
                ('{"topic": "a", "partitions": ["0"]}', 'must be a whole number, not "0"'),
                ('{"topic": "a", "partitions": [2147483648]}', "above 2147483647"),
                ('{"topic": "a", "partitions": [0, 0]}', "names a-0 twice"),
            )
        ),
    ],
)
def test_each_fault_of_a_partition_file_is_named(text: str, message: str) -> None:
    with pytest.raises(MalformedInput, match=message):
        parse_partitions(text, "f.json")


def test_a_hostile_topic_is_shown_short_and_in_ascii() -> None:
    hostile = "\x1b[31m[bold]" + "x" * 500
    with pytest.raises(MalformedInput) as refused:
        elections_of({"partitions": [{"topic": hostile, "partition": 0}]}, "f.json")
    assert str(refused.value).isascii()
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 160
