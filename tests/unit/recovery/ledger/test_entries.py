"""What replicas held, written into a journal and read back: all of it, and nothing made up."""

import json
from typing import Any

import pytest
from hypothesis import given

from breakglass.services.model import PartitionEvidence, Unknown
from breakglass.services.recovery.ledger.entries import (
    NOT_WRITTEN,
    Holdings,
    read_holdings,
    written_holdings,
)
from tests.unit.recovery.partitions import partitions


def back(evidence: PartitionEvidence) -> Holdings:
    """As it comes back from a line of a journal."""

    def plain(value: object) -> object:
        assert isinstance(value, Unknown)
        return {"unknown": value.reason}

    found = read_holdings(json.loads(json.dumps(written_holdings(evidence), default=plain)))
    assert isinstance(found, Holdings)
    return found


def same(one: object, other: object) -> bool:
    return one == other or (isinstance(one, Unknown) and isinstance(other, Unknown))


@given(partitions())
def test_everything_that_decides_about_a_record_comes_back(evidence: PartitionEvidence) -> None:
    found = back(evidence)
    assert [replica.broker for replica in found.replicas] == [
        replica.broker for replica in evidence.replicas
    ]
    assert same(found.compacted, evidence.settings.compacted)
    assert same(found.tiered, evidence.settings.tiered)
    for was, now in zip(evidence.replicas, found.replicas, strict=True):
        assert same(now.log_end, was.log_end)
        if isinstance(was.log_end, int):
            assert same(now.log_start, was.log_start)
            assert same(now.epochs, was.epochs)
            assert now.corrupt_at == was.corrupt_at or isinstance(was.epochs, Unknown)
            if isinstance(was.epochs, Unknown):
                continue
            assert same(now.high_watermark, was.high_watermark)


@pytest.mark.parametrize(
    "item", [{}, {"replicas": None}, {"replicas": []}, {"replicas": "b1 100"}, {"price": "0"}]
)
def test_a_journal_of_an_earlier_release_says_unknown(item: dict[str, Any]) -> None:
    assert read_holdings(item) is NOT_WRITTEN
    for replicas in ([{"end": 9}], [7]):
        assert isinstance(read_holdings({"replicas": replicas}), Unknown), "it names no broker"


@pytest.mark.parametrize(
    "replica",
    [
        {"broker": 1, "start": 0, "end": True, "epochs": []},
        {"broker": 1, "start": 9, "end": 5, "epochs": []},
        {"broker": 1, "start": 0, "end": 2**70, "epochs": []},
        {"broker": 1, "start": 0, "end": 9, "epochs": [[3, 0, 5], [2, 5, 9]]},
        {"broker": 1, "start": 0, "end": 9, "epochs": [[0, 0, 99]]},
        {"broker": 1, "start": 0, "end": 9, "epochs": [[0, 0]]},
        {"broker": 1, "start": 0, "end": 9, "epochs": "0 2"},
        {"broker": 1, "start": -4, "end": 9, "epochs": []},
    ],
)
def test_what_cannot_be_meant_is_unknown(replica: dict[str, Any]) -> None:
    found = read_holdings({"replicas": [replica]})
    assert isinstance(found, Holdings)
    (one,) = found.replicas
    assert isinstance(one.log_end, Unknown) or isinstance(one.epochs, Unknown)
