"""What the guarded screens say, sentence by sentence."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.screens.elect import wording
from breakglass.screens.elect.progress import ElectionProgress, standing_of
from breakglass.screens.elect.state import evidence_told
from breakglass.services.guard.act import Ending, JournalOpened
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.acts.events import (
    BatchBegun,
    OutcomesReported,
    RescueEnded,
    RescueProgressed,
)
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult, Rung
from breakglass.services.recovery.guarded.aftermath import Aftermath, GroupPastEnd
from breakglass.services.recovery.guarded.election_quote import frozen
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, subject_of
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.rescue.results import RescueProgress
from tests.unit.recovery.execution.targets import target
from tests.unit.recovery.plans import LOSS, SAFE, UNPROVEN, WAITING
from tests.unit.recovery.replicas import HEALTHY

ORDERS = TopicPartition("orders", 0)
JOURNAL = Path("/state/journal/one.jsonl")


def about(*evidence: PartitionEvidence) -> ElectionSubject:
    return subject_of(
        "a-cluster", [one.partition for one in evidence], [assess(one, HEALTHY) for one in evidence]
    )


def outcome(
    result: RecoveryResult, reason: str = "", rung: Rung | None = None, **more: object
) -> PartitionOutcome:
    told = {"leader": 1, "leader_epoch": 6, **more}
    return PartitionOutcome(target(ORDERS, 1, (1, 2), (2, 1)), result, reason, rung=rung, **told)  # type: ignore[arg-type]


@pytest.mark.parametrize(
    ("evidence", "expected"),
    [
        ((LOSS,), "Elect b1 for orders-3: loses 50 records, b3 unread."),
        ((SAFE, LOSS), "Elect 2 partitions: loses 50 records, b3 unread."),
        ((UNPROVEN,), "Elect b1 for orders-6: loses unknown, nothing unread."),
        ((UNPROVEN, LOSS), "Elect 2 partitions: loses 50 records, and unknown for 1, b3 unread."),
        ((), "Nothing is left to elect."),
    ],
)
def test_the_headline_tells_known_and_unknown_apart(
    evidence: tuple[PartitionEvidence, ...], expected: str
) -> None:
    assert wording.headline(about(*evidence)) == expected


def test_a_start_that_spares_elections_is_told_by_its_number() -> None:
    assert list(wording.spared(about(WAITING))) == ["It needs no election if you start b5."]
    assert list(wording.spared(about(WAITING, SAFE))) == [
        "1 of them needs no election if you start b5."
    ]


def test_the_rescue_is_told_with_its_place_or_that_it_is_off(tmp_path: Path) -> None:
    on, off = RescueChoice(to=tmp_path), RescueChoice(without=True)
    assert wording.rescue_told(about(LOSS), on) == f"Rescue first: on: 50 records to {tmp_path}."
    assert "OFF: 50 records are cut off and not saved" in wording.rescue_told(about(LOSS), off)
    assert "no records that could be saved are cut off" in wording.rescue_told(about(SAFE), on)


@pytest.mark.parametrize(
    ("size", "expected"),
    [(640, "640 B"), (12_000, "12.0 kB"), (3_400_000, "3.4 MB"), (7_100_000_000, "7.1 GB")],
)
def test_sizes_are_short(size: int, expected: str) -> None:
    assert wording.size_text(size) == expected


def test_each_phrase_says_which_of_how_many_it_is() -> None:
    assert wording.asking(ConsentPhrase("x lose 0"), 1, 1) == "Type to confirm: "
    assert wording.asking(ConsentPhrase("x lose 0"), 2, 2) == "2 of 2: Type to confirm: "
    alone = wording.asking(ConsentPhrase("x lose 0", "it is an internal topic"), 1, 2)
    assert alone.startswith(
        "1 of 2: this partition needs its own consent: it is an internal topic."
    )


def test_the_evidence_names_the_designee_first_and_what_each_other_loses() -> None:
    assert list(evidence_told(frozen(LOSS, 1))) == [
        "b1 stale  0 to 125  HW 100  epochs 0 2  is elected",
        "b2 stale  0 to 150  HW 100  epochs 0 1  loses 50 past 100",
        "b3 stale  ?: b3 does not answer (connection refused)",
    ]


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (outcome(RecoveryResult.ELECTED, rung=Rung.SERVING), "■■··· serving"),
        (outcome(RecoveryResult.ELECTED, rung=Rung.REDUNDANT), "■■■■■ redundant"),
        (outcome(RecoveryResult.ELECTED, "it has no leader again"), "! leader lost again"),
        (outcome(RecoveryResult.UNKNOWN, "no answer"), "? unknown"),
        (outcome(RecoveryResult.FAILED, "broker error"), "x failed"),
        (outcome(RecoveryResult.REFUSED, "fenced"), "! refused"),
        (outcome(RecoveryResult.ALREADY_ONLINE), "✓ already online"),
        (outcome(RecoveryResult.NOT_ATTEMPTED, "stopped"), "- not attempted"),
        (outcome(RecoveryResult.ELECTED_ANOTHER, "stop b1", leader=2), "x b2 was elected"),
        (outcome(RecoveryResult.UNDONE), "✓ undone"),
        (
            outcome(RecoveryResult.REORDERED, "no election", order_restored=False),
            "! reordered only",
        ),
    ],
)
def test_each_end_has_a_sign_and_a_word(one: PartitionOutcome, expected: str) -> None:
    assert standing_of(one).text == expected


@pytest.mark.parametrize(
    "result", [result for result in RecoveryResult if result is not RecoveryResult.REORDERED]
)
def test_an_order_that_was_not_put_back_is_told_of_every_outcome(result: RecoveryResult) -> None:
    rung = Rung.WRITABLE if result is RecoveryResult.ELECTED else None
    left = outcome(result, "why", rung=rung, order_restored=False)
    assert standing_of(left).reason.endswith("was not put back: resume the journal")
    told = list(wording.what_next(ended(left), Aftermath((), ())))
    assert "The order of 1 partition was not put back: r resumes the journal." in told


def test_progress_is_told_step_by_step() -> None:
    progress = ElectionProgress()
    progress.begin([ORDERS])
    assert wording.progress_told(progress) == "Connecting to elect."
    progress.take(JournalOpened(JOURNAL))
    progress.take(RescueProgressed(RescueProgress(Path("/r"), 1, 30, 50)))
    assert wording.progress_told(progress) == (
        "Saving what will be cut off: 30 of at most 50 records of 1 partition."
    )
    progress.take(RescueEnded(()))
    progress.take(BatchBegun((ORDERS,)))
    assert wording.progress_told(progress) == "Electing: 0 of 1 done."
    assert progress.standings[ORDERS].word == "electing"
    progress.take(OutcomesReported((outcome(RecoveryResult.ELECTED, rung=Rung.WRITABLE),)))
    assert wording.progress_told(progress) == "Electing: 1 of 1 done: 1 writable."
    progress.end(Ending("succeeded"))
    assert wording.ended_told(progress) == "Done: 1 writable."


def ended(*outcomes: PartitionOutcome, result: str | None = "partly failed") -> ElectionProgress:
    progress = ElectionProgress()
    progress.begin([one.partition for one in outcomes])
    for event in (JournalOpened(JOURNAL), OutcomesReported(outcomes)):
        progress.take(event)
    progress.end(Ending(result))
    return progress


def test_a_stopped_run_is_not_called_done() -> None:
    stopped = ended(outcome(RecoveryResult.NOT_ATTEMPTED, "stopped on request"), result=None)
    assert wording.ended_told(stopped) == "Stopped: 1 not attempted."


@pytest.mark.parametrize(
    ("one", "expected"),
    [
        (outcome(RecoveryResult.UNKNOWN), "u asks the cluster again and elects nothing."),
        (
            outcome(RecoveryResult.FAILED, "broker error"),
            "1 partition failed: orders-0: broker error.",
        ),
        (
            outcome(RecoveryResult.REFUSED, "b1 is fenced"),
            "refused by a guard: orders-0: b1 is fenced.",
        ),
        (outcome(RecoveryResult.NOT_ATTEMPTED), "r resumes the journal."),
        (
            outcome(RecoveryResult.REORDERED, "no election", order_restored=False),
            "1 partition reordered and not elected: r resumes the journal, and elects or puts the "
            "order back.",
        ),
        (outcome(RecoveryResult.ELECTED_ANOTHER, "stop b1 now"), "orders-0: stop b1 now."),
    ],
)
def test_what_is_to_be_done_next_is_told_first(one: PartitionOutcome, expected: str) -> None:
    told = list(wording.what_next(ended(one), Aftermath((), ())))
    assert told[0].endswith(expected)
    assert told[-1] == f"Journal: {JOURNAL}"


def test_what_elections_leave_behind_is_told_and_many_are_counted() -> None:
    left = OpenTransaction(ORDERS, 7, 0, 90, 0, "")
    past = tuple(GroupPastEnd(ORDERS, f"g{n}", 130, 100) for n in range(8))
    done = ended(outcome(RecoveryResult.ELECTED, rung=Rung.WRITABLE))
    told = " ".join(wording.what_next(done, Aftermath((left,), past)))
    assert "orders-0: open transaction of producer 7 since offset 90" in told
    assert "Group g4 committed 130 on orders-0, whose log ends at 100" in told
    assert "g5" not in told
    assert "And 3 more groups past the end." in told


def test_open_transactions_that_are_not_known_are_said_to_be_so() -> None:
    done = ended(outcome(RecoveryResult.ELECTED, rung=Rung.WRITABLE))
    told = list(wording.what_next(done, Aftermath(Unknown("b1 is gone"), ())))
    assert told[0] == "Open transactions are not known: b1 is gone."


def test_a_change_is_told_by_the_first_and_their_number() -> None:
    changed = {"orders-0": "its log grew", "orders-1": "its log grew too"}
    told = wording.changed_told(changed, about(SAFE))
    assert told.startswith("2 partitions changed since you agreed: nothing was sent. orders-0: its")
    assert wording.changed_told({}, about(SAFE)) == ""
