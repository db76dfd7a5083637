"""As many elections as possible are completed, and what is said of the others is so."""

import resource
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import islice
from pathlib import Path

import pytest

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.errors import StorageError
from breakglass.services.guard.journal import Journal, JournalView
from breakglass.services.guard.lock import operator
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.lab.topics import reassign
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.target import (
    ELECT,
    REORDER,
    ElectionTarget,
    PartitionOutcome,
    RecoveryResult,
    Replies,
    Route,
    RouteChoice,
    described,
    stock_route,
    target_of,
)
from tests.kit.running import at_rest
from tests.kit.waiting import wait_until
from tests.lab.console.commands import on
from tests.lab.recover.elections.test_elections import Change, around_election, session
from tests.lab.recover.elections.test_killed import AT_ONCE, TOGETHER, Interrupted
from tests.lab.recover.session import ELECT_LEADERS, Watched, watched
from tests.lab.scenarios.damaged import Damaged
from tests.terminal.pty_terminal import PtyTerminal

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

    def choose(client: ElectionClient) -> Route:
        route = stock_route(client)
        (step,) = [step for step in route.steps if step.name == name]

        def send(batch: Sequence[ElectionTarget], deadline: Deadline) -> Replies:
            sent.append(name)
            if len(sent) == at:
                change()
            return step.send(batch, deadline)

        steps = [replace(one, send=send) if one is step else one for one in route.steps]
        return replace(route, steps=tuple(steps))

    return choose


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
