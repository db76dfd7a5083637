"""The checker is checked: what is done to a run behind its back is found, by the right name."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.checkpoint.protocol.values import Copy, CopyId, Intent, Status
from tests.unit.checkpoint.protocol.checker import broken
from tests.unit.checkpoint.protocol.simulation import World

COPY = CopyId(1, 0, 0)


@pytest.fixture
def finished() -> World:
    """Two partitions, a transfer between them, and one checkpoint that is completed."""
    world = World(2)
    world.transfer(0, 1)
    world.ask()
    world.settle()
    assert world.status(1) is Status.COMPLETED
    assert broken(world) == []
    return world


def found(world: World) -> set[str]:
    """The invariants that are broken."""
    return {text.split(":")[0] for text in broken(world)}


def test_a_checkpoint_that_was_created_twice_breaks_i3(finished: World) -> None:
    log = finished.partitions[0].log
    created = next(
        record for record in log if record.follow_up and record.follow_up.intent is Intent.CREATED
    )
    log.append(replace(created, position=len(log) + 1))
    assert found(finished) == {"I3"}


def test_a_completed_copy_without_content_breaks_i5(finished: World) -> None:
    copy, _ = finished.copies[COPY]
    finished.copies[COPY] = (copy, None)
    finished.verdicts[1, 0] = "so that nothing is restored from it"
    assert found(finished) == {"I5"}


@pytest.mark.parametrize("status", [Status.ONGOING, Status.FAILED])
def test_a_whole_copy_that_is_not_completed_breaks_i5(finished: World, status: Status) -> None:
    copy, material = finished.copies[COPY]
    finished.copies[COPY] = (replace(copy, status=status), material)
    assert "I5" in found(finished)


def test_a_copy_whose_digest_is_another_ones_breaks_i5(finished: World) -> None:
    copy, material = finished.copies[COPY]
    finished.copies[COPY] = (replace(copy, digest="of something else"), material)
    assert found(finished) == {"I5"}


class Hopeful(World):
    """Says of every checkpoint that it is completed."""

    def status(self, checkpoint: int) -> Status:
        return Status.COMPLETED


class Hopeless(World):
    """Says that none is."""

    def status(self, checkpoint: int) -> Status:
        return Status.FAILED


@pytest.mark.parametrize("kind", [Hopeful, Hopeless])
def test_a_status_that_is_not_that_of_the_partitions_breaks_i6(kind: type[World]) -> None:
    world = kind(2)
    world.ask()
    world.settle()
    if kind is Hopeful:
        world.verdicts[1, 1] = "a new owner's"
    assert found(world) == {"I6"}


def test_two_completed_copies_that_differ_are_not_whole(finished: World) -> None:
    copy, material = finished.copies[COPY]
    assert material is not None
    other = CopyId(1, 0, 1)
    state = replace(material.state, balance=7)
    finished.copies[other] = (
        Copy(other, Status.COMPLETED, copy.position, digest="another"),
        replace(material, state=state),
    )
    assert finished.status(1) is Status.FAILED
    assert "I6" not in found(finished)
    finished.copies[other] = (replace(finished.copies[other][0], digest=copy.digest), material)
    assert finished.status(1) is Status.COMPLETED
    assert found(finished) == set()


def test_what_was_acknowledged_before_it_had_started_breaks_i7(finished: World) -> None:
    finished.acknowledged[1] = [0, 0]
    assert found(finished) == {"I7"}
