"""The last look before a batch is sent: each guard by a table."""

from dataclasses import replace

import pytest

from breakglass.services.model import (
    PartitionEvidence,
    PartitionState,
    Reassignment,
    TopicPartition,
    Unknown,
)
from breakglass.services.recovery.execution.recheck import (
    HeardNow,
    TargetCheck,
    ask_unread,
    holders,
    recheck,
    recheck_log,
)
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    target_of,
)
from breakglass.services.recovery.triage import triage
from breakglass.services.snapshot import ClusterDescription
from tests.kit.deadlines import HOUR
from tests.unit.recovery.execution.conftest import Bench
from tests.unit.recovery.execution.targets import ANOTHER_TOPIC_ID, brokers, state, target

WELL = brokers(1, 2, 3, fenced=(3,))
"""b3, which led last, is dead."""
NO_ELR = Unknown("before Kafka 4.0")


def refusal(
    state: PartitionState | None,
    described: ClusterDescription = WELL,
    wanted: ElectionTarget | None = None,
) -> str:
    """The reason of a refusal; empty where the target may be sent."""
    outcome = recheck(wanted or target(), state, described)
    if outcome is None:
        return ""
    assert outcome.result is RecoveryResult.REFUSED
    return outcome.reason


MOVING = Reassignment((4,), ())
AS_IT_IS = (3, 1, 2)
"""An order that need not be written: b3 is not registered, and b1 is the first live one."""


@pytest.mark.parametrize(
    ("described", "allowed"),
    [
        pytest.param(brokers(1, 2), True, id="the first live one"),
        pytest.param(brokers(1, 2, 4), True, id="another is registered"),
        pytest.param(brokers(2), False, id="itself not registered"),
    ],
)
def test_r32_beside_an_unregistered_broker_the_first_live_one_may_be_elected_without_a_reorder(
    described: ClusterDescription, allowed: bool
) -> None:
    wanted = target(order=AS_IT_IS, assignment=AS_IT_IS)
    assert (refusal(state(last=(3,)), described, wanted) == "") is allowed


def test_r32_beside_an_unregistered_broker_one_after_a_live_one_is_refused() -> None:
    order = (3, 2, 1)
    wanted = target(order=order, assignment=order)
    assert "b3" in refusal(state(assignment=order), brokers(1, 2), wanted)


@pytest.mark.parametrize(
    ("now", "described", "wanted"),
    [
        pytest.param(state(), WELL, target(), id="as it was"),
        pytest.param(state(assignment=(1, 2, 3)), WELL, target(), id="cut off after its reorder"),
        pytest.param(
            state(elr=NO_ELR, last=NO_ELR),
            brokers(1, 2, names_fenced=False),
            target(),
            id="r12: an old cluster does not tell unregistered from fenced",
        ),
        pytest.param(state(), WELL, target(log_end=None), id="r16: chosen unread by hand"),
    ],
)
def test_what_is_as_it_was_agreed_to_may_be_sent(
    now: PartitionState, described: ClusterDescription, wanted: ElectionTarget
) -> None:
    assert refusal(now, described, wanted) == ""


@pytest.mark.parametrize(
    ("now", "described", "word"),
    [
        pytest.param(None, WELL, "gone", id="gone"),
        pytest.param(state(topic_id=ANOTHER_TOPIC_ID), WELL, "recreated", id="another topic"),
        pytest.param(state(leader_epoch=7), WELL, "epoch 5 became 7", id="led again"),
        pytest.param(state(assignment=(3, 2)), WELL, "b1", id="not assigned"),
        pytest.param(state(assignment=(2, 3, 1)), WELL, "[2, 3, 1]", id="another order"),
        pytest.param(
            state(assignment=(3, 1, 2, 4)),
            brokers(1, 2, 3, 4, fenced=(3,)),
            "[3, 1, 2, 4]",
            id="a replica more",
        ),
        pytest.param(state(last=(3,)), brokers(1, 2, 3), "stop broker 3", id="r01: b3 is back"),
        pytest.param(
            state(assignment=(1, 2, 3), last=(3,)),
            brokers(1, 2, 3),
            "stop broker 3",
            id="r01: even when our order is written",
        ),
        pytest.param(state(reassignment=MOVING), WELL, "reassignment", id="r12: moving"),
        pytest.param(
            state(reassignment=Unknown("denied")), WELL, "denied", id="r12: unknown whether moving"
        ),
        pytest.param(state(), brokers(1, 2), "b3", id="r12: unregistered"),
        pytest.param(state(), brokers(1, 2, 3, fenced=(1, 3)), "fenced", id="r16: fenced designee"),
        pytest.param(state(), brokers(2, 3, fenced=(3,)), "fenced", id="r16: unknown designee"),
    ],
)
def test_what_changed_since_the_evidence_was_read_is_refused(
    now: PartitionState | None, described: ClusterDescription, word: str
) -> None:
    assert word in refusal(now, described)


def test_r12_a_reassignment_is_not_meddled_with() -> None:
    assert refusal(state(reassignment=MOVING))


@pytest.mark.parametrize(
    ("now", "described", "held"),
    [
        (state(), WELL, ()),
        (state(isr=(3,)), WELL, ()),
        (state(isr=(3,)), brokers(1, 2, 3), (3,)),
        (state(elr=(3,)), brokers(1, 2, 3), (3,)),
        (state(last=(3,)), brokers(1, 2, 3), (3,)),
        (state(elr=(2, 3), last=(3,)), brokers(1, 2, 3), (2, 3)),
        (state(isr=(2,), elr=(3,)), brokers(1, 2, 3, fenced=(2,)), (3,)),
        (state(last=(1,)), WELL, ()),
        (state(isr=(1, 2)), WELL, (2,)),
        (state(isr=(3,), elr=NO_ELR, last=NO_ELR), brokers(1, 2, 3), (3,)),
        (state(isr=(3,), elr=NO_ELR, last=NO_ELR), brokers(1, 2, names_fenced=False), ()),
        (state(last=(3,)), brokers(1, 2), ()),
    ],
    ids=[
        "nobody",
        "ISR fenced",
        "ISR alive",
        "ELR alive",
        "last leader alive",
        "several, each once",
        "fenced ISR, live ELR",
        "the designee itself",
        "designee and another",
        "no ELR, ISR alive",
        "left out by an old cluster",
        "not registered: not before it is back",
    ],
)
def test_r01_unfenced_members_other_than_the_designee(
    now: PartitionState, described: ClusterDescription, held: tuple[int, ...]
) -> None:
    assert holders(TargetCheck(target(), now, described)) == held


@pytest.mark.parametrize(
    ("agreed", "now", "result"),
    [
        pytest.param(100, 100, None, id="it ends where it did"),
        pytest.param(100, 0, RecoveryResult.REFUSED, id="its disk was replaced"),
        pytest.param(100, 99, RecoveryResult.REFUSED, id="it is shorter"),
        pytest.param(100, 101, RecoveryResult.REFUSED, id="it is longer"),
        pytest.param(100, Unknown("hung"), RecoveryResult.REFUSED, id="r06: it is not told"),
        pytest.param(None, Unknown("hung"), None, id="r16: it was unread, and is"),
        pytest.param(None, 17, None, id="r16: it was unread, and is read"),
    ],
)
def test_a_log_that_is_not_the_one_agreed_to_is_refused(
    agreed: int | None, now: int | Unknown, result: RecoveryResult | None
) -> None:
    outcome = recheck_log(target(log_end=agreed), now)
    assert (outcome and outcome.result) is result


class Agreed:
    """Elections of one designee that were agreed to while the replicas of *silent* were unread."""

    def __init__(self, bench: Bench, designee: int, silent: int, count: int = 1) -> None:
        partitions = [wanted.partition for wanted in bench.offline(count=count)]
        self._bench, replicas = bench, bench.cluster.replicas
        held = {partition: replicas.pop((silent, partition), None) for partition in partitions}
        *_, found = triage(bench.read, HOUR)
        self.evidence: dict[TopicPartition, PartitionEvidence] = {
            evidence.partition: evidence for evidence in found.evidence.partitions
        }
        self.targets = [target_of(self.evidence[one], designee) for one in partitions]
        for partition, replica in held.items():
            if replica is not None:
                replicas[silent, partition] = replica

    def heard(self, *targets: ElectionTarget) -> list[HeardNow]:
        found = ask_unread(self._bench.read, self.evidence, targets or self.targets)
        return [found[target.partition] for target in self.targets if target.partition in found]

    def run(self) -> list[PartitionOutcome]:
        recovery = replace(self._bench.recovery(), evidence=self.evidence)
        recovery.observer = self._bench.recovery().observer
        return [outcome for batch in recovery.run(self.targets) for outcome in batch]


@pytest.mark.parametrize("fenced", [True, False])
def test_r25_a_replica_with_more_that_answers_by_now_is_not_cut(bench: Bench, fenced: bool) -> None:
    agreed = Agreed(bench, designee=2, silent=1, count=3)
    bench.cluster.story.fenced = {1, 3} if fenced else {3}
    assert {outcome.result for outcome in agreed.run()} == {RecoveryResult.REFUSED}
    assert bench.controller.steps == []


def test_r25_a_replica_that_came_back_with_no_more_keeps_nobody(bench: Bench) -> None:
    """It was fenced when the price was counted, and is heard now."""
    bench.cluster.story.fenced = {2, 3}
    agreed = Agreed(bench, designee=1, silent=2)
    assert agreed.targets[0].live == ()
    bench.cluster.story.fenced = {3}
    assert [outcome.result for outcome in agreed.run()] == [RecoveryResult.ELECTED]
