"""What the guarded screens say: one transcript, which a change of wording changes alone."""

import json
import shlex
from collections.abc import Iterator
from pathlib import Path

import pytest
from syrupy.assertion import SnapshotAssertion

from breakglass.screens.elect import wording
from breakglass.screens.elect.screen import put_back_command
from breakglass.screens.elect.state import ElectionProgress, evidence_told, standing_of
from breakglass.services.guard.act import Ending, JournalOpened
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.kafka.cluster.open_transactions import OpenTransaction
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.acts.elect import (
    BatchBegun,
    OutcomesReported,
    RescueEnded,
    RescueProgressed,
)
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult, Rung
from breakglass.services.recovery.guarded.aftermath import Aftermath, GroupPastEnd
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.guarded.subject import ElectionSubject, frozen, subject_of
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.rescue.spans import RescuedPartition, RescueProgress, Saved
from tests.screens.drawing import TextFile
from tests.unit.recovery.execution.targets import target
from tests.unit.recovery.plans import LOSS, SAFE, UNPROVEN, WAITING
from tests.unit.recovery.replicas import HEALTHY

ORDERS, OTHER = TopicPartition("orders", 0), TopicPartition("orders", 1)
JOURNAL = Path("/state/journal/one.jsonl")
NOTHING_LEFT = Aftermath((), ())


def about(*evidence: PartitionEvidence) -> ElectionSubject:
    return subject_of(
        "a-cluster", [one.partition for one in evidence], [assess(one, HEALTHY) for one in evidence]
    )


def outcome(
    result: RecoveryResult, reason: str = "", rung: Rung | None = None, **more: object
) -> PartitionOutcome:
    told = {"leader": 1, "leader_epoch": 6, **more}
    return PartitionOutcome(target(ORDERS, 1, (1, 2), (2, 1)), result, reason, rung=rung, **told)  # type: ignore[arg-type]


DONE = outcome(RecoveryResult.ELECTED, rung=Rung.WRITABLE)
OUTCOMES = (
    outcome(RecoveryResult.ELECTED, rung=Rung.SERVING),
    outcome(RecoveryResult.ELECTED, rung=Rung.REDUNDANT),
    outcome(RecoveryResult.ELECTED, "it has no leader again", leader=None),
    outcome(RecoveryResult.UNKNOWN, "no answer"),
    outcome(RecoveryResult.FAILED, "broker error"),
    outcome(RecoveryResult.REFUSED, "b1 is fenced"),
    outcome(RecoveryResult.ALREADY_ONLINE),
    outcome(RecoveryResult.NOT_ATTEMPTED, "stopped on request"),
    outcome(RecoveryResult.ELECTED_ANOTHER, "stop b1 now", leader=2),
    outcome(RecoveryResult.UNDONE),
    outcome(RecoveryResult.REORDERED, "no election", order_restored=False),
    outcome(RecoveryResult.ELECTED, "b2 leads it by now", leader=2),
)


def ended(*outcomes: PartitionOutcome, result: str | None = "partly failed") -> ElectionProgress:
    progress = ElectionProgress()
    progress.begin([one.partition for one in outcomes])
    for event in (JournalOpened(JOURNAL), OutcomesReported(outcomes)):
        progress.take(event)
    progress.end(Ending(result))
    return progress


def before_consent() -> Iterator[str]:
    for evidence in ((LOSS,), (SAFE, LOSS), (UNPROVEN,), (UNPROVEN, LOSS), ()):
        yield wording.headline(about(*evidence))
    for waiting in ((WAITING,), (WAITING, SAFE)):
        yield from wording.spared(about(*waiting))
    on, off = RescueChoice(to=Path("/rescued")), RescueChoice(without=True)
    for evidence, choice in (((LOSS,), on), ((LOSS,), off), ((SAFE,), on)):
        yield wording.rescue_told(about(*evidence), choice)
    for size in (640, 12_000, 3_400_000, 7_100_000_000):
        yield wording.size_text(size)
    for alone, number, count in (("", 1, 1), ("", 2, 2), ("it is an internal topic", 1, 2)):
        yield wording.asking(ConsentPhrase("x lose 0", alone), number, count)
    yield from evidence_told(frozen(LOSS, 1))
    yield wording.changed_told({"orders-0": "its log grew", "orders-1": "it too"}, about(SAFE))


def while_it_runs() -> Iterator[str]:
    progress = ElectionProgress()
    progress.begin([ORDERS])
    yield wording.progress_told(progress)
    for event in (
        JournalOpened(JOURNAL),
        RescueProgressed(RescueProgress(Path("/r"), 1, 30, 50)),
        RescueEnded(()),
        BatchBegun((ORDERS,)),
        OutcomesReported((DONE,)),
    ):
        progress.take(event)
        yield f"{wording.progress_told(progress)} ({progress.standings[ORDERS].word})"
    progress.end(Ending("succeeded"))
    yield wording.ended_told(progress)
    yield wording.ended_told(ended(OUTCOMES[7], result=None))


def afterwards() -> Iterator[str]:
    for one in OUTCOMES:
        yield f"{standing_of(one).text}: {standing_of(one).reason}"
        yield from (f"  {line}" for line in wording.what_next(ended(one), NOTHING_LEFT))
    left = OpenTransaction(ORDERS, 7, 0, 90, 0, "")
    past = tuple(GroupPastEnd(ORDERS, f"g{n}", 130, 100) for n in range(8))
    for aftermath in (Aftermath((left,), past), Aftermath(Unknown("b1 is gone"), ())):
        yield from wording.what_next(ended(DONE), aftermath)


def test_the_guarded_screens_say_what_they_said_before(snapshot: SnapshotAssertion) -> None:
    parts = (before_consent(), while_it_runs(), afterwards())
    said = "\n\n".join("\n".join(part) for part in parts)
    assert f"{said}\n" == snapshot(extension_class=TextFile)
    assert wording.changed_told({}, about(SAFE)) == ""


def test_what_puts_records_back_names_each_rescued_partition_and_the_folder_of_the_rescue() -> None:
    progress = ended(DONE)
    saved = Saved(2, (), 12, 900, Path("/my rescues/c/t/b2/orders/0"))
    progress.take(RescueEnded((RescuedPartition(ORDERS, 1, (saved,)), RescuedPartition(OTHER, 1))))
    echo, restore = put_back_command(progress, ("--profile", "prod")).split(" && ")
    _, document, _, file = shlex.split(echo)
    elections = {"topic": "orders", "partition": ORDERS.partition, "designatedLeader": 1}
    assert json.loads(document) == {"partitions": [elections]}
    assert shlex.split(restore) == [
        *("breakglass", "backup", "restore", "--tail-of", file, "--store", "/my rescues/c/t"),
        *("--write", "--profile", "prod"),
    ]
    assert put_back_command(ended(DONE), ()) == ""


@pytest.mark.parametrize(
    "result", [result for result in RecoveryResult if result is not RecoveryResult.REORDERED]
)
def test_an_order_that_was_not_put_back_is_told_of_every_outcome(result: RecoveryResult) -> None:
    rung = Rung.WRITABLE if result is RecoveryResult.ELECTED else None
    left = outcome(result, "why", rung=rung, order_restored=False)
    assert standing_of(left).reason.endswith("resume the journal")
    told = list(wording.what_next(ended(left), NOTHING_LEFT))
    assert sum("r resumes the journal" in line for line in told) >= 1
