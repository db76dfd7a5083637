"""Elections on real brokers, and what happens between two of their steps."""

import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any

import pytest

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Items, Journal, JournalView
from breakglass.services.guard.lock import operator
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
    REORDER,
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
from tests.kit.running import at_rest
from tests.kit.waiting import wait_until
from tests.lab.asking import consume, reassign_code, reassignments
from tests.lab.console.commands import on
from tests.lab.recover.elections.test_killed import AT_ONCE, TOGETHER, Interrupted
from tests.lab.recover.session import ELECT_LEADERS, Watched, judged, judgement, targets, watched
from tests.lab.scenarios.damaged import Damaged, lab_after
from tests.terminal.pty_terminal import PtyTerminal

PAYMENTS = TopicPartition("payments", 0)
ACCOUNTS = TopicPartition("accounts", 0)
LEDGER = TopicPartition("ledger", 0)
ORDERS = tuple(TopicPartition("orders", number) for number in range(3))
Change = Callable[[], object]


def around_election(
    *, before: Change | None = None, after: Change | None = None, name: str = ELECT
) -> RouteChoice:
    """The stock route, with something happening right before or after a step of it is sent."""

    def choose(client: ElectionClient) -> Route:
        route = stock_route(client)
        (one,) = [step for step in route.steps if step.name == name]

        def send(batch: Sequence[ElectionTarget], deadline: Deadline) -> Replies:
            if before is not None:
                before()
            replies = one.send(batch, deadline)
            if after is not None:
                after()
            return replies

        steps = [replace(step, send=send) if step is one else step for step in route.steps]
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


patient = lab_after("hung-designee", options={"hang": "no"})
"""b1 is awake; the controller takes a silent broker for alive for 45 s."""


one_alive = lab_after("min-isr-2-one-alive")
"""b1 is."""


to_be_reconfigured = lab_after("stale-replicas", "diverged")
"""b3 led `orders` and `ledger` last, is dead, and intact."""


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


DESIGNEE, OTHER = 1, 2
BATCHES = 12
"""Partitions of a run: the canary, ten, and one more."""
INTERRUPTED = 130
SIGNALS = ([signal.SIGHUP], [signal.SIGTERM, signal.SIGHUP])


@pytest.fixture
def wanted(
    unused: Iterator[TopicPartition], evidence: dict[TopicPartition, PartitionEvidence]
) -> list[ElectionTarget]:
    """Offline partitions of `events`; b1 is to lead."""
    return [target_of(evidence[batch], DESIGNEE) for batch in islice(unused, BATCHES)]


def by_partition(
    outcomes: list[PartitionOutcome], wanted: list[ElectionTarget]
) -> list[PartitionOutcome]:
    """In the order of *wanted*."""
    told = {outcome.partition: outcome for outcome in outcomes}
    return [told[target.partition] for target in wanted]


def before_step(name: str, change: Change, *, at: int) -> RouteChoice:
    """The stock route, with something happening before the step is sent for the *at*-th time."""
    sent: list[str] = []

    def count() -> None:
        sent.append(name)
        if len(sent) == at:
            change()

    return around_election(before=count, name=name)


class TestTheBadPartitionComesFirst:
    """KIP-1275: the others are elected all the same."""

    def test_refused_by_a_guard_it_keeps_no_other(
        self, lab: Damaged, wanted: list[ElectionTarget], tmp_path: Path
    ) -> None:
        stale = replace(wanted[0], leader_epoch=wanted[0].leader_epoch - 1)
        with session(lab, tmp_path) as opened:
            first, *others = by_partition(opened.run([stale, *wanted[1:]]), wanted)
        assert (first.result, first.order_restored) == (RecoveryResult.REFUSED, None)
        assert [(other.result, other.leader) for other in others] == [
            (RecoveryResult.ELECTED, DESIGNEE)
        ] * (BATCHES - 1)
        assert lab.state(wanted[0].partition).assignment == wanted[0].assignment

    def test_failed_by_the_controller_it_keeps_no_other(
        self, lab: Damaged, wanted: list[ElectionTarget], tmp_path: Path
    ) -> None:
        """An order with a broker that the cluster does not have."""
        odd = replace(wanted[0], order=(DESIGNEE, 99, OTHER))
        with session(lab, tmp_path) as opened:
            first, *others = by_partition(opened.run([odd, *wanted[1:]]), wanted)
        assert (first.result, first.order_restored) == (RecoveryResult.FAILED, None)
        assert "includes broker 99" in first.reason
        assert {other.result for other in others} == {RecoveryResult.ELECTED}


class TestTheJournalFillsInTheMiddle:
    @contextmanager
    def full(self, journal: Journal) -> Iterator[Callable[[], None]]:
        """What makes every file that grows past the journal's length a full disk, until the end."""
        before = resource.getrlimit(resource.RLIMIT_FSIZE)

        def fill() -> None:
            size = journal.path.stat().st_size
            resource.setrlimit(resource.RLIMIT_FSIZE, (size, before[1]))

        try:
            yield fill
        finally:
            resource.setrlimit(resource.RLIMIT_FSIZE, before)

    def test_what_was_reordered_is_said_to_be_and_resume_elects_it(
        self, lab: Damaged, wanted: list[ElectionTarget], tmp_path: Path
    ) -> None:
        with session(lab, tmp_path) as opened, self.full(opened.journal) as fill:
            items = {target.partition: described_with_price(target) for target in wanted}
            opened.journal.plan("", "", items)
            opened.journal.consent(f"{BATCHES} partitions lose 0")
            route = before_step(REORDER, fill, at=2)
            outcomes = by_partition(opened.run(wanted, route), wanted)
            path = opened.journal.path
        first, *second, last = outcomes
        assert (first.result, first.order_restored) == (RecoveryResult.ELECTED, True)
        for outcome in second:
            assert (outcome.result, outcome.order_restored) == (RecoveryResult.REORDERED, False)
            assert "its assignment order was changed and no election was held" in outcome.reason
            # The controller has the order at once, brokers a moment later.
            lab.cluster.wait_partition(
                outcome.partition.topic,
                outcome.partition.partition,
                lambda state, order=outcome.target.order: (  # type: ignore[misc]
                    (state.leader, state.assignment) == (None, order)
                ),
                "the order that was written, and no leader",
            )
        assert (last.result, last.order_restored) == (RecoveryResult.NOT_ATTEMPTED, None)
        assert lab.state(last.partition).assignment == last.target.assignment
        told = on(lab.cluster, "recover", "resume", "--journal", path, "--write")
        assert told.code == 0, told.err
        for target in wanted:
            lab.cluster.wait_partition(
                target.partition.topic,
                target.partition.partition,
                lambda state: state.leader == DESIGNEE and state.assignment[0] == 3,
                "the designee to lead in the order that was",
            )

    def test_without_room_for_the_journal_nothing_is_sent(
        self, lab: Damaged, wanted: list[ElectionTarget], tmp_path: Path
    ) -> None:
        before = [lab.state(target.partition) for target in wanted]
        with watched(lab.cluster) as seen, session(lab, tmp_path) as opened:
            with self.full(opened.journal) as fill:
                fill()
                with pytest.raises(
                    StorageError, match=r"needs [0-9,]+ bytes in .*nothing was sent"
                ):
                    opened.run(wanted)
            assert seen.changes == []
        assert [lab.state(target.partition) for target in wanted] == before


def described_with_price(target: ElectionTarget) -> dict[str, object]:
    """As a plan that was agreed to has it; b3 is dead, and what it holds is not known."""
    return {**described(target), "price": "0", "abandons": (3,), "unread_at_least": None}


class TestTwoOperators:
    """The loser is told what is proved, and no cause that is not."""

    @pytest.fixture
    def ours(
        self, unused: Iterator[TopicPartition], evidence: dict[TopicPartition, PartitionEvidence]
    ) -> ElectionTarget:
        """b1 is to lead."""
        return target_of(evidence[next(unused)], DESIGNEE)

    def elected_by_another(
        self, lab: Damaged, target: ElectionTarget, folder: Path | None
    ) -> Change:
        """A whole recovery by somebody else, who wants the other replica."""
        theirs = replace(target, designee=OTHER, order=(OTHER, DESIGNEE, 3), log_end=None)
        theirs = replace(theirs, live=(DESIGNEE,))

        def recover() -> None:
            address = str(lab.cluster.broker(OTHER).address())
            connection = Connection(ConnectionOptions(address)).armed()
            with (
                connection.power("a test").elections(lab.truth.cluster_id) as armed,
                Journal.open(lab.truth.cluster_id, folder) as journal,
            ):
                (batch,) = Recovery(armed, journal, stock_route).run([theirs])
                assert [outcome.result for outcome in batch] == [RecoveryResult.ELECTED]

        return recover

    def lost(self, lab: Damaged, wanted: ElectionTarget, folder: Path, change: Change) -> str:
        """What the loser reads, whose look came first."""
        with session(lab, folder) as opened:
            (outcome,) = opened.run([wanted], before_step(REORDER, change, at=1))
        assert (outcome.result, outcome.leader) == (RecoveryResult.ELECTED_ANOTHER, OTHER)
        assert outcome.order_restored is False
        assert "fenced" not in outcome.reason
        assert "came back" not in outcome.reason
        return outcome.reason

    def test_it_is_said_that_another_elected_the_other_replica(
        self, lab: Damaged, ours: ElectionTarget, tmp_path: Path
    ) -> None:
        theirs = self.elected_by_another(lab, ours, tmp_path / "theirs")
        reason = self.lost(lab, ours, tmp_path / "ours", theirs)
        # A broker that does not know our order yet shows theirs between the two.
        assert reason.startswith("another operator or tool elected b2; ")
        assert "b2 led already when this" in reason

    def test_who_it_was_is_said_where_a_journal_tells(
        self, lab: Damaged, ours: ElectionTarget, tmp_path: Path
    ) -> None:
        theirs = self.elected_by_another(lab, ours, None)
        reason = self.lost(lab, ours, tmp_path / "ours", theirs)
        assert reason.startswith(f"{operator()} (journal ")
        assert ") elected b2" in reason

    def test_a_tool_that_writes_another_order_is_told_by_the_order(
        self, lab: Damaged, ours: ElectionTarget, tmp_path: Path
    ) -> None:
        theirs = (OTHER, 3, DESIGNEE)
        route = around_election(before=lambda: reassign(lab.cluster, {ours.partition: theirs}))
        with session(lab, tmp_path) as opened:
            (outcome,) = opened.run([ours], route)
        assert (outcome.result, outcome.leader) == (RecoveryResult.ELECTED_ANOTHER, OTHER)
        assert outcome.reason.startswith(
            f"another operator or tool elected b2; the assignment is {list(theirs)}, and not "
            f"{list(ours.order)} as this recovery left it"
        )


class TestASignalInTheMiddle:
    """What is under way is finished, the rest is left to a resume, and the code is 130."""

    @pytest.fixture
    def partitions(self, unused: Iterator[TopicPartition]) -> list[TopicPartition]:
        return list(islice(unused, TOGETHER))

    @pytest.fixture
    def run(self, lab: Damaged, partitions: list[TopicPartition], tmp_path: Path) -> Interrupted:
        return Interrupted(lab, partitions, tmp_path)

    @pytest.mark.parametrize("numbers", SIGNALS)
    def test_it_ends_with_130_and_says_how_to_go_on(
        self, lab: Damaged, run: Interrupted, numbers: list[signal.Signals], tmp_path: Path
    ) -> None:
        with watched(lab.cluster) as session, (tmp_path / "said").open("w+") as said:
            process = started(run, session, said.fileno())
            try:
                held_election(run, session)
                for number in numbers:
                    process.send_signal(number)
                let_go(session, process.pid)
                code = process.wait(600)
            finally:
                process.kill()
                process.wait(600)
            said.seek(0)
            last = said.read().splitlines()[-1]
        assert code == INTERRUPTED, last
        assert_left(run.journal, last)

    def test_ctrl_c_twice_on_a_terminal_ends_with_130(self, lab: Damaged, run: Interrupted) -> None:
        with watched(lab.cluster) as session:
            arguments = run.arguments(session)
            program = Path(sys.executable).with_name("breakglass")
            with PtyTerminal([program, *arguments], env=run.environment()) as terminal:
                held_election(run, session)
                terminal.press("ctrl+c")
                terminal.press("ctrl+c")
                let_go(session, terminal.process.pid)
                assert terminal.exit_code() == INTERRUPTED, terminal.text


def started(run: Interrupted, session: Watched, said: int) -> subprocess.Popen[bytes]:
    program = Path(sys.executable).with_name("breakglass")
    return subprocess.Popen(
        [str(program), *run.arguments(session)],
        env=run.environment(),
        stdin=subprocess.DEVNULL,
        stdout=said,
        stderr=said,
        preexec_fn=heed_hangup,
    )


def heed_hangup() -> None:
    """Whoever runs the tests may ignore a lost terminal, which programs inherit."""
    signal.signal(signal.SIGHUP, signal.SIG_DFL)


def held_election(run: Interrupted, session: Watched) -> None:
    """Return while the canary's election is under way: the brokers get it when it is let go."""
    for proxy in session.proxies.values():
        proxy.hold(ELECT_LEADERS)
    wait_until(lambda: ELECT in steps(run), "the first election to be announced", every=AT_ONCE)


def let_go(session: Watched, program: int) -> None:
    """Let the brokers have the election once *program* has heard of every signal."""
    wait_until(lambda: at_rest(program), "the program to have heard of the signals")
    for proxy in session.proxies.values():
        proxy.heal()


def steps(run: Interrupted) -> list[str]:
    try:
        return [step.name for step in run.journal.steps]
    except ValueError:
        return []


def assert_left(view: JournalView, last: str) -> None:
    """The canary was elected, the rest is named with the next command."""
    assert view.result is None
    assert last == (
        f"exit 130: {TOGETHER - 1} not attempted of {TOGETHER}; `breakglass recover resume "
        f"{view.path} --write` finishes what is left"
    )
    assert view.unsettled == ()
