"""Watching elected partitions climb (R7), until each is at its top or nobody looks any more."""

from collections.abc import Callable, Iterator
from dataclasses import replace

from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult, Rung
from breakglass.services.recovery.guarded.aftermath import watch_ladder
from tests.unit.recovery.guarded.conftest import Session
from tests.unit.recovery.plans import named


def elected(session: Session) -> tuple[PartitionOutcome, ...]:
    """Elect b1 wherever nobody leads."""
    election = session.election(session.wanted())
    return tuple(election.run(election.phrases))


def watching(
    session: Session, outcomes: tuple[PartitionOutcome, ...], *changes: Callable[[], object]
) -> Iterator[tuple[PartitionOutcome, ...]]:
    """Watch without waiting; each of *changes* happens at one pause, the watch stops after all."""
    left = list(changes)

    def pause(_: float) -> None:
        if left:
            left.pop(0)()

    looks = iter(range(50))
    return watch_ladder(
        session.read, outcomes, lambda: not left and next(looks, None) is None, pause
    )


def rungs(moved: tuple[PartitionOutcome, ...]) -> list[tuple[str, Rung | None]]:
    return list(
        zip(
            named(outcome.partition for outcome in moved),
            (outcome.rung for outcome in moved),
            strict=True,
        )
    )


def test_each_partition_is_told_when_it_moves_until_all_are_redundant(session: Session) -> None:
    first, second = session.offline(count=2)
    outcomes = elected(session)
    assert {outcome.rung for outcome in outcomes} == {Rung.WRITABLE}
    told = watching(session, outcomes, lambda: session.change(second, isr=(1, 2)))
    assert rungs(next(told)) == [("orders-1", Rung.REDUNDANT)]
    session.change(first, isr=(1, 2))
    assert [rungs(pair) for pair in told] == [[("orders-0", Rung.REDUNDANT)]]


def test_a_leader_that_is_lost_again_is_told_with_the_reason(session: Session) -> None:
    (partition,) = session.offline()
    outcomes = elected(session)

    def lose() -> None:
        session.change(partition, leader=None, leader_epoch=7)

    ((moved,),) = watching(session, outcomes, lose)
    assert (moved.rung, moved.result) == (None, RecoveryResult.ELECTED)
    assert moved.reason


def test_metadata_of_before_the_election_takes_no_leader_away(session: Session) -> None:
    (partition,) = session.offline()
    outcomes = elected(session)
    session.change(partition, leader=None, leader_epoch=5)
    assert list(watching(session, outcomes)) == []


def test_a_leader_that_does_not_speak_keeps_its_rung_and_hides_no_other(session: Session) -> None:
    _, alive = session.offline(count=2)
    mute, other = elected(session)
    other = replace(other, target=replace(other.target, designee=2, log_end=70))
    session.change(alive, leader=2, isr=(2, 1))
    session.mute(1)
    told = watch_ladder(session.read, (mute, other), lambda: False, lambda _: None)
    assert rungs(next(told)) == [("orders-1", Rung.REDUNDANT)]
