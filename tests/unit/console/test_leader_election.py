"""`breakglass leader-election`: what its options exclude, before any broker is asked."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.kit.program import breakglass

NOBODY = ("--bootstrap-server", "127.0.0.1:1")


@pytest.mark.parametrize("election", ["preferred", "unclean"])
@pytest.mark.parametrize(
    "named",
    [
        [],
        ["--all-topic-partitions", "--topic", "orders", "--partition", "0"],
        ["--all-topic-partitions", "--path-to-json-file", "some.json"],
        ["--path-to-json-file", "some.json", "--topic", "orders", "--partition", "0"],
    ],
)
def test_partitions_are_named_in_exactly_one_way(election: str, named: list[str]) -> None:
    ended = breakglass("leader-election", "--election-type", election, *named, "--write", *NOBODY)
    assert (ended.code, ended.out) == (2, "")
    assert ended.said == [
        "give exactly one of --path-to-json-file, --topic with --partition, and "
        "--all-topic-partitions"
    ]


@pytest.mark.parametrize(
    "half", [["--topic", "orders"], ["--all-topic-partitions", "--partition", "0"]]
)
def test_topic_and_partition_belong_together(half: list[str]) -> None:
    ended = breakglass("leader-election", "--election-type", "unclean", *half, *NOBODY)
    assert ended.code == 2
    assert ended.said == ["--topic and --partition belong together: give both"]


@pytest.mark.parametrize(
    "named", [["--all-topic-partitions"], ["--topic", "orders", "--partition", "0"]]
)
def test_a_designated_election_needs_a_file(named: list[str]) -> None:
    ended = breakglass("leader-election", "--election-type", "designated", *named, *NOBODY)
    assert ended.code == 2
    assert "needs --path-to-json-file with a designatedLeader in each entry" in ended.said[0]


@pytest.mark.parametrize(
    ("entry", "message"),
    [
        ('{"topic": "orders", "partition": 0}', "orders-0 has no designatedLeader: name one"),
        ('{"topic": "orders" "partition": 0}', "not JSON at line 1, column 36"),
        ('{"topic": "orders"}', 'entry 1 .orders.: it has no "partition"'),
    ],
)
def test_a_file_that_does_not_designate_is_refused(
    tmp_path: Path, entry: str, message: str
) -> None:
    path = tmp_path / "elections.json"
    path.write_text(f'{{"partitions": [{entry}]}}')
    arguments = ("--election-type", "designated", "--path-to-json-file", path, "--write")
    ended = breakglass("leader-election", *arguments, *NOBODY)
    assert (ended.code, len(ended.said)) == (2, 1)
    assert re.search(message, ended.said[0])


@pytest.mark.parametrize("election", ["preferred", "unclean"])
def test_without_write_it_is_refused_before_any_broker_is_asked(election: str) -> None:
    arguments = ("--election-type", election, "--all-topic-partitions")
    ended = breakglass("leader-election", *arguments, *NOBODY)
    assert ended.code == 3
    assert ended.said == [f"a {election} election changes the cluster: add --write"]


def test_a_type_of_election_that_kafka_does_not_have_is_a_usage_error() -> None:
    ended = breakglass("leader-election", "--election-type", "random", *NOBODY)
    assert ended.code == 2
    assert "'preferred', 'unclean', 'designated'" in ended.err
