"""Whom the coordinator asks, what it tells the client, and how statuses add up."""

from __future__ import annotations

import itertools
import json
from pathlib import Path

import pytest

from breakglass.services.checkpoint.protocol import coordinator
from breakglass.services.checkpoint.protocol.coordinator import NotHigher, Take
from breakglass.services.checkpoint.protocol.participant import Acknowledge, CheckpointState
from breakglass.services.checkpoint.protocol.status import (
    checkpoint_status,
    counting_copy,
    may_become,
    partition_failure,
    partition_status,
)
from breakglass.services.checkpoint.protocol.values import Copy, CopyId, PartitionBackup, Status

GOLDEN = Path(__file__).parents[3] / "golden" / "zeebe_http"
D, O, C, F, I = (  # noqa: E741 - a table of them follows
    Status.DOES_NOT_EXIST,
    Status.ONGOING,
    Status.COMPLETED,
    Status.FAILED,
    Status.INCOMPLETE,
)


def started(id: int, last: int | None = None) -> Acknowledge:
    return Acknowledge(id, CheckpointState(last or id, 12), started=True)


def taken(id: int, *seen: int) -> Take:
    found = coordinator.take(id, (1, 2, 3), seen)
    assert isinstance(found, Take)
    return found


def test_those_that_have_not_answered_are_asked_again() -> None:
    take = coordinator.acknowledge(taken(5), 2, started(5))
    assert take.missing == (1, 3)
    assert not take.acknowledged


def test_the_client_is_told_when_every_partition_has_started() -> None:
    take = taken(5)
    for number in (1, 2, 3, 3):
        take = coordinator.acknowledge(take, number, started(5))
    assert take.acknowledged
    assert take.refusal is None


@pytest.mark.parametrize(("partition", "id"), [(1, 4), (9, 5)])
def test_an_answer_to_another_take_or_of_another_partition_changes_nothing(
    partition: int, id: int
) -> None:
    take = taken(5)
    assert coordinator.acknowledge(take, partition, started(id)) == take


def test_a_partition_that_is_past_the_id_makes_the_take_impossible() -> None:
    take = taken(5)
    for number in (1, 2):
        take = coordinator.acknowledge(take, number, started(5))
    take = coordinator.acknowledge(take, 3, started(5, last=7))
    assert not take.acknowledged
    assert take.refusal == NotHigher(5, 7)


def test_a_coordinator_that_takes_over_asks_all() -> None:
    assert coordinator.resume(5, (1, 2, 3)).missing == (1, 2, 3)


@pytest.mark.parametrize("id", [3, 4])
def test_an_id_that_is_not_greater_than_all_before_it_is_refused(id: int) -> None:
    found = coordinator.take(id, (1, 2, 3), (1, 4, 2))
    assert found == NotHigher(id, 4)


def test_the_refusal_is_worded_as_zeebes() -> None:
    golden = json.loads((GOLDEN / "take_409.json").read_text("utf-8"))
    assert NotHigher(4, 4).message == golden["body"]["message"]


@pytest.mark.parametrize(
    ("partitions", "whole"),
    [
        ((C, C, C), C),
        ((C, F, D), F),
        ((O, F, C), F),
        ((C, C, D), I),
        ((O, D, D), I),
        ((O, C, C), O),
        ((D, D, D), D),
        ((), D),
    ],
)
def test_statuses_of_partitions_add_up_in_zeebes_order(
    partitions: tuple[Status, ...], whole: Status
) -> None:
    found = {checkpoint_status(order) for order in itertools.permutations(partitions)}
    assert found == {whole}


@pytest.mark.parametrize(
    ("copies", "status"),
    [((D, F), F), ((F, O), O), ((O, C), C), ((F, C), C), ((F, F), F), ((), D)],
)
def test_of_several_nodes_copies_the_best_one_counts(
    copies: tuple[Status, ...], status: Status
) -> None:
    found = tuple(Copy(CopyId(1, 2, node), one) for node, one in enumerate(copies))
    assert partition_status(PartitionBackup(2, found)) is status
    counting = counting_copy(PartitionBackup(2, found))
    assert (counting.status if counting else D) is status


def test_the_verdict_on_a_partition_stands_above_its_copies() -> None:
    completed = Copy(CopyId(1, 2, 0), C, 12, digest="aa")
    backup = PartitionBackup(2, (completed,), failure="its owner changed")
    assert partition_status(backup) is F
    assert partition_failure(backup) == "its owner changed"


def test_partitions_nothing_is_known_of_do_not_exist() -> None:
    one = PartitionBackup(1, (Copy(CopyId(1, 1, 0), C, 12, digest="aa"),))
    assert coordinator.status((1, 2), [one]) is I
    assert coordinator.status((1,), [one, PartitionBackup(7)]) is C


def test_only_zeebes_transitions_are_allowed() -> None:
    allowed = {(a, b) for a in Status for b in Status if may_become(a, b)}
    assert allowed == {(D, O), (D, F), (O, C), (O, F), (C, F)}
