"""Elections on real brokers, and what happens between two of their steps."""

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.guard.journal import Items, Journal
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import configure_topic, elect_preferred, reassign
from breakglass.services.model import PartitionEvidence, PartitionState, TopicPartition
from breakglass.services.recovery.execution.confirm import Observer, climb
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.steps import (
    ELECT,
    Replies,
    Route,
    RouteChoice,
    described,
    stock_route,
)
from breakglass.services.recovery.execution.target import (
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Rung,
    target_of,
)
from breakglass.services.recovery.judgement.assessment import Action, Verb, Verdict
from breakglass.services.recovery.unfinished import Resume, survey
from tests.lab.asking import consume, reassign_code, reassignments
from tests.lab.recover.session import judged, judgement, targets
from tests.lab.scenarios.damaged import Damaged, damaged

PAYMENTS = TopicPartition("payments", 0)
ACCOUNTS = TopicPartition("accounts", 0)
LEDGER = TopicPartition("ledger", 0)
ORDERS = tuple(TopicPartition("orders", number) for number in range(3))
Change = Callable[[], object]


def around_election(*, before: Change | None = None, after: Change | None = None) -> RouteChoice:
    """The stock route, with something happening right before or after the election is sent."""

    def choose(client: ElectionClient) -> Route:
        route = stock_route(client)
        (elect,) = [step for step in route.steps if step.name == ELECT]

        def send(batch: Sequence[ElectionTarget], deadline: Deadline) -> Replies:
            if before is not None:
                before()
            replies = elect.send(batch, deadline)
            if after is not None:
                after()
            return replies

        steps = [replace(step, send=send) if step is elect else step for step in route.steps]
        return replace(route, steps=tuple(steps))

    return choose


@dataclass(frozen=True)
class Session:
    """A recovery of one lab, reached through one broker."""

    cluster: Cluster
    read: ReadClient
    elect: ElectionClient
    journal: Journal

    def recovery(self, route: RouteChoice = stock_route) -> Recovery:
        return Recovery(self.elect, self.journal, route)

    def run(
        self,
        wanted: Sequence[ElectionTarget],
        route: RouteChoice = stock_route,
        *,
        confirmed: Change | None = None,
    ) -> list[PartitionOutcome]:
        """Hold them; *confirmed* happens once, between a confirmed election and what follows it."""
        outcome = self.journal.outcome

        def noticed(request: int, items: Items, **details: Any) -> int:
            entry = outcome(request, items, **details)
            elected = any(item["result"] == RecoveryResult.ELECTED for item in items.values())
            if elected and confirmed is not None:
                confirmed()
            return entry

        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(self.journal, "outcome", noticed)
            return [outcome for batch in self.recovery(route).run(wanted) for outcome in batch]

    def state(self, partition: TopicPartition) -> PartitionState:
        """As the broker has it that everything goes through: others may hang."""
        (state,) = [
            state
            for state in self.read.partitions([partition.topic], Deadline.after(10.0))
            if state.partition == partition
        ]
        return state


@contextmanager
def session(lab: Damaged, folder: Path, *, through: int = 1) -> Iterator[Session]:
    """A session that bootstraps from broker *through* alone."""
    address = lab.cluster.broker(through).address()
    connection = Connection(ConnectionOptions(str(address))).armed()
    with (
        connection.reading() as read,
        connection.power("a test").elections(lab.truth.cluster_id) as elect,
        Journal.open(lab.truth.cluster_id, folder) as journal,
    ):
        yield Session(lab.cluster, read, elect, journal)


@pytest.fixture(scope="module")
def patient(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """`hung-designee`, with b1 awake; the controller takes a silent broker for alive for 45 s."""
    folder = tmp_path_factory.mktemp("lab")
    with damaged(folder, "hung-designee", options={"hang": "no"}) as lab:
        yield lab


@pytest.fixture(scope="module")
def one_alive(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """`min-isr-2-one-alive`: b1 is."""
    with damaged(tmp_path_factory.mktemp("lab"), "min-isr-2-one-alive") as lab:
        yield lab


@pytest.fixture(scope="module")
def to_be_reconfigured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    """b3 led `orders` and `ledger` last, is dead, and intact."""
    with damaged(tmp_path_factory.mktemp("lab"), "stale-replicas", "diverged") as lab:
        yield lab


class TestTheOrder:
    """R13: the order is put back where it is still the one we wrote."""

    @pytest.fixture
    def wanted(
        self, unused: Iterator[TopicPartition], evidence: dict[TopicPartition, PartitionEvidence]
    ) -> list[ElectionTarget]:
        """b2 is to lead: neither first in the order nor the one with the most records."""
        return [target_of(evidence[partition], 2) for partition in islice(unused, 2)]

    def test_r13_after_an_election_it_is_what_it_was(
        self, lab: Damaged, wanted: list[ElectionTarget], tmp_path: Path
    ) -> None:
        with session(lab, tmp_path) as opened:
            outcomes = opened.run(wanted)
        assert [
            (outcome.result, outcome.leader, outcome.order_restored) for outcome in outcomes
        ] == [(RecoveryResult.ELECTED, 2, True)] * 2
        for target in wanted:
            state = lab.cluster.wait_partition(
                target.partition.topic,
                target.partition.partition,
                lambda state: state.leader == 2 and state.assignment[0] == 3,
                "b2 to lead in the old order",
            )
            assert state.assignment == target.assignment

    def test_r13_what_another_operator_wrote_meanwhile_is_left(
        self, lab: Damaged, wanted: list[ElectionTarget], tmp_path: Path
    ) -> None:
        (first, _) = wanted
        theirs = (2, 3, 1)
        assert theirs not in (first.order, first.assignment)

        def write_theirs() -> None:
            reassign(lab.cluster, {first.partition: theirs})
            # The controller has it at once, brokers a moment later: no reader can know before.
            wait_known(lab, first.partition, lambda state: state.assignment == theirs)

        route = around_election(after=write_theirs)
        with session(lab, tmp_path) as opened:
            (outcome,) = opened.run([first], route)
            assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, False)
            assert opened.state(first.partition).assignment == theirs

    def test_r13_while_it_is_being_moved_its_order_is_left(
        self, lab: Damaged, wanted: list[ElectionTarget], tmp_path: Path
    ) -> None:
        """b1 is to leave once b3, which is dead, is in sync: the move keeps the order we wrote."""
        target = replace(wanted[0], order=(2, 3, 1))

        def move() -> None:
            reassign(lab.cluster, {target.partition: (2, 3)})
            wait_known(lab, target.partition, lambda state: state.assignment == target.order)

        try:
            with session(lab, tmp_path) as opened:
                (outcome,) = opened.run([target], confirmed=move)
                assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, False)
                assert opened.state(target.partition).assignment == target.order
            assert reassignments(lab.cluster)[target.partition] == ([2, 3, 1], [], [1])
        finally:
            reassign_code(lab.cluster, target.partition, None)

    def test_r13_where_another_replica_leads_by_now_its_order_is_left(
        self, lab: Damaged, wanted: list[ElectionTarget], tmp_path: Path
    ) -> None:
        """Somebody lets b1 lead, and writes the very order that we wrote."""
        target = wanted[0]
        named = _name(target.partition)

        def let_b1_lead() -> None:
            lab.cluster.wait_partition(*named, lambda state: 1 in state.isr, "b1 to be in sync")
            reassign(lab.cluster, {target.partition: (1, 2, 3)})
            elect_preferred(lab.cluster, target.partition)
            reassign(lab.cluster, {target.partition: target.order})
            wait_known(lab, target.partition, lambda state: taken_over(state, target))

        with session(lab, tmp_path) as opened:
            (outcome,) = opened.run([target], confirmed=let_b1_lead)
            assert (outcome.result, outcome.order_restored) == (RecoveryResult.ELECTED, False)
            assert taken_over(opened.state(target.partition), target)


def taken_over(state: PartitionState, target: ElectionTarget) -> bool:
    """b1 leads, in the order that was written for another designee."""
    return state.leader == 1 and state.assignment == target.order != target.assignment


def wait_known(
    lab: Damaged, partition: TopicPartition, so: Callable[[PartitionState], bool]
) -> None:
    """Until every awake broker knows what the controller knows at once."""
    for broker in [node for node in lab.cluster.brokers if node.awake]:
        what = f"b{broker.id} to know what was changed"
        lab.cluster.wait_partition(*_name(partition), so, what, via=broker.id)


class TestTheDesigneeHangs:
    """R6: the controller does not notice for 45 s, and elects it."""

    @pytest.fixture
    def opened(self, patient: Damaged, tmp_path: Path) -> Iterator[Session]:
        with session(patient, tmp_path, through=2) as opened:
            yield opened
        if patient.cluster.broker(1).paused:
            patient.cluster.broker(1).resume()

    def test_r06_hanging_since_it_is_unknown_until_it_speaks(
        self, opened: Session, tmp_path: Path
    ) -> None:
        b1 = opened.cluster.broker(1)
        (wanted,) = targets(judged(opened.read), {PAYMENTS: 1})
        opened.journal.plan("", "", {PAYMENTS: described(wanted)})
        (outcome,) = opened.run([wanted], around_election(before=b1.pause))
        assert opened.state(PAYMENTS).leader == 1
        assert (outcome.result, outcome.leader, outcome.rung) == (
            RecoveryResult.UNKNOWN,
            1,
            Rung.ANNOUNCED,
        )
        assert outcome.reason.startswith("b1 was elected but does not answer (timed out)")
        b1.resume()
        opened.journal.close()
        (outcome,) = resumed(opened, tmp_path / "later")
        assert (outcome.result, outcome.leader) == (RecoveryResult.ELECTED, 1)
        assert opened.state(PAYMENTS).assignment == wanted.assignment


def resumed(opened: Session, folder: Path) -> list[PartitionOutcome]:
    """Finish the journal of a session that was closed."""
    journal, view = Journal.resume(opened.journal.path, folder)
    with journal:
        recovery = replace(opened.recovery(), journal=journal)
        batches = Resume(recovery, survey(opened.read, view, 10.0)).finish()
        return [outcome for batch in batches for outcome in batch]


class TestElectedIsNotRecovered:
    """R7: min.insync.replicas is 2, and b1 alone is alive."""

    def test_r07_it_serves_and_is_readable_only_once_another_is_in_sync(
        self, one_alive: Damaged, tmp_path: Path
    ) -> None:
        lab = one_alive
        with session(lab, tmp_path) as opened:
            wanted = targets(judged(opened.read), {ACCOUNTS: 1})
            assert wanted[0].min_insync_replicas == 2
            outcomes = opened.run(wanted)
            assert [(outcome.result, outcome.rung) for outcome in outcomes] == [
                (RecoveryResult.ELECTED, Rung.SERVING)
            ]
            assert consume(lab.cluster, ACCOUNTS) == {}
            lab.cluster.broker(2).start()
            (readable,) = climb(Observer(opened.read), outcomes, Deadline.after(60.0))
            assert readable.rung in (Rung.READABLE, Rung.REDUNDANT)
            # A climb ends when the records can be read, which brokers may know before the new ISR.
            for broker in (1, 2):
                lab.cluster.wait_partition(
                    *_name(ACCOUNTS), lambda state: len(state.isr) == 2, "b2 in sync", via=broker
                )
            climbed = climb(Observer(opened.read), outcomes, Deadline.after(60.0))
            assert climbed[0].rung is Rung.REDUNDANT
        assert len(consume(lab.cluster, ACCOUNTS)) == lab.truth_of(ACCOUNTS).replica(1).records
        assert produce(lab.cluster, *_name(ACCOUNTS), 1, acks="all").failed == 0


class TestMinInsyncReplicas:
    """R3: the one setting that operators change first makes the intact leader a stale replica."""

    def test_r03_changed_it_leaves_the_returning_leader_to_be_elected_by_hand(
        self, to_be_reconfigured: Damaged, tmp_path: Path
    ) -> None:
        lab = to_be_reconfigured
        with session(lab, tmp_path) as opened:
            waiting = judged(opened.read)
            assert judgement(waiting, ORDERS[0]).action == Action(Verb.START, 3)
            configure_topic(lab.cluster, "orders", {"min.insync.replicas": "2"})
            lab.cluster.wait_until(
                lambda: all(wiped(opened.state(order)) for order in ORDERS),
                "the successors of orders to be forgotten",
            )
            lab.cluster.broker(3).start()
            lab.cluster.wait_unfenced(3)
            lab.cluster.wait_partition(
                *_name(LEDGER), lambda state: state.leader == 3, "b3 to lead again by itself"
            )
            found = judged(opened.read, "orders")
            for order in ORDERS:
                said = judgement(found, order)
                assert (said.verdict, said.action) == (Verdict.SAFE, Action(Verb.ELECT, 3))
                assert not any("min.insync" in reason for reason in said.reasons)
            outcomes = opened.run(targets(found, dict.fromkeys(ORDERS, 3)))
        assert [(outcome.result, outcome.leader) for outcome in outcomes] == [
            (RecoveryResult.ELECTED, 3)
        ] * 3


def wiped(state: PartitionState) -> bool:
    """No replica is elected unless somebody elects it uncleanly."""
    return state.offline and not (state.isr or state.elr or state.last_known_elr)


def _name(partition: TopicPartition) -> tuple[str, int]:
    return partition.topic, partition.partition
