"""`breakglass leader-election`: what its options exclude, before any broker is asked."""

from pathlib import Path

import pytest

from tests.kit.program import Ended, breakglass
from tests.unit.console.fakes import NOBODY

ALL = "--all-topic-partitions"
TOPIC, PARTITION = ("--topic", "orders"), ("--partition", "0")
FILE = ("--path-to-json-file", "some.json")
NOT_ONE_WAY = ((), (ALL, *TOPIC, *PARTITION), (ALL, *FILE), (*FILE, *TOPIC, *PARTITION))


def elect(kind: str, *options: object) -> Ended:
    return breakglass("leader-election", "--election-type", kind, *options, *NOBODY)


@pytest.mark.parametrize(
    ("kind", "named"),
    [
        *((kind, named) for kind in ("preferred", "unclean") for named in NOT_ONE_WAY),
        *(("unclean", TOPIC), ("unclean", (ALL, *PARTITION)), ("random", (ALL,))),
        *(("designated", (ALL,)), ("designated", (*TOPIC, *PARTITION))),
    ],
)
def test_partitions_are_named_in_exactly_one_way(kind: str, named: tuple[str, ...]) -> None:
    assert elect(kind, *named, "--write")[:2] == (2, "")


@pytest.mark.parametrize(
    ("entry", "named"),
    [
        ('{"topic": "orders", "partition": 0}', "orders-0"),
        ('{"topic": "orders" "partition": 0}', "line 1, column 36"),
        ('{"topic": "orders"}', "entry 1 (orders)"),
        ('{"topic": "orders", "partition": 0, "designatedLeader": -1}', "is -1"),
        (", ".join(['{"topic": "orders", "partition": 0}'] * 2), "orders-0 twice"),
    ],
)
def test_a_file_that_does_not_designate_is_refused(tmp_path: Path, entry: str, named: str) -> None:
    path = tmp_path / "elections.json"
    path.write_text(f'{{"partitions": [{entry}]}}')
    ended = elect("designated", "--path-to-json-file", path, "--write")
    assert (ended.code, len(ended.said), named in ended.said[0]) == (2, 1, True)


@pytest.mark.parametrize("kind", ["preferred", "unclean"])
def test_without_write_it_is_refused_before_any_broker_is_asked(kind: str) -> None:
    ended = elect(kind, ALL)
    assert (ended.code, "--write" in ended.said[0]) == (3, True)
