"""kill -9 of Breakglass at each step: `resume` ends in the planned state, or undoes it."""

import json
import os
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import islice
from pathlib import Path

import pytest

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.guard.journal import Journal, JournalView, list_journals
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.execution.run import Recovery
from breakglass.services.recovery.execution.steps import route_for
from breakglass.services.recovery.execution.target import PartitionOutcome, RecoveryResult
from breakglass.services.recovery.unfinished import Resume, consented, ended_as, survey
from tests.kit.running import Running, running
from tests.kit.waiting import wait_until
from tests.lab.recover.session import ALTER_PARTITION_REASSIGNMENTS, ELECT_LEADERS, Watched, watched
from tests.lab.recover.settings.asking import kill_at
from tests.lab.scenarios.damaged import Damaged

PROGRAM_SECONDS = 600.0
AT_ONCE = 0.002
"""Seconds between two looks at a program that does not wait to be killed."""
DESIGNEE = 1
TOGETHER = 3
"""Partitions of one recovery: the canary, and a batch behind it."""


@pytest.fixture
def partitions(unused: Iterator[TopicPartition]) -> list[TopicPartition]:
    """Offline partitions that no other test elects."""
    return list(islice(unused, TOGETHER))


@pytest.fixture
def before(lab: Damaged, partitions: list[TopicPartition]) -> list[PartitionState]:
    return [lab.state(partition) for partition in partitions]


class Interrupted:
    """A recovery by the program, which is killed, and its journal."""

    def __init__(self, lab: Damaged, partitions: Sequence[TopicPartition], folder: Path) -> None:
        self._lab = lab
        self._partitions = partitions
        self._folder = folder
        self._named = folder / "partitions.json"
        topic = {
            "topic": partitions[0].topic,
            "partitions": [partition.partition for partition in partitions],
        }
        self._named.write_text(json.dumps({"partitions": [topic]}))

    def arguments(self, watched: Watched) -> list[str]:
        options = watched.connection.options
        addresses = [f"--broker-address={text}" for text in options.broker_address]
        return [
            "unclean-recovery",
            f"--bootstrap-server={options.bootstrap_server}",
            *addresses,
            "--automated-recovery",
            "--write",
            "--gone=3",
            f"--consent={len(self._partitions)} partitions lose 0 and abandon b3",
            f"--path-to-json-file={self._named}",
        ]

    def killed_at(self, watched: Watched, kind: str, step: str, number: int) -> JournalView:
        """Killed as soon as a line is in the journal: what it announces was not sent."""
        kill_at(self.environment(), kind, step, number, *self.arguments(watched))
        return self.journal

    def killed_without_answer(
        self, watched: Watched, step: str, api_key: int, *, after: str = ""
    ) -> JournalView:
        """Killed while it waits for the answer to *step*, which the controller carried out.

        *after* is the step whose announcement in the journal arms the proxies.
        """
        if not after:
            swallow(watched, api_key)
        with running(None, *self.arguments(watched), environment=self.environment()) as program:
            if after:
                self._wait_announced(after, program)
                swallow(watched, api_key)
            self._wait_announced(step, program)
            self._wait_carried_out(step)
        return self.journal

    @property
    def journal(self) -> JournalView:
        """The only one; read while it grows, a line may be torn.

        Raises:
            ValueError: there is none, or it was made this moment and says nothing yet.
        """
        (found,) = list_journals(self._lab.truth.cluster_id, self._state_folder)
        if not isinstance(found, JournalView):
            raise ValueError(found.reason)
        return found

    @property
    def _state_folder(self) -> Path:
        return self._folder / "killed" / "breakglass"

    def environment(self) -> dict[str, str]:
        return {**os.environ, "XDG_STATE_HOME": str(self._folder / "killed")}

    def _wait_announced(self, step: str, program: Running) -> None:
        def announced() -> bool:
            assert not program.ended, program.said
            journals = list_journals(self._lab.truth.cluster_id, self._state_folder)
            return any(
                one.name == step
                for view in journals
                if isinstance(view, JournalView)
                for one in view.steps
            )

        wait_until(announced, f"{step} to be announced", every=AT_ONCE)

    def _wait_carried_out(self, step: str) -> None:
        """The brokers' metadata show what the controller did."""
        items = next(one.items for one in reversed(self.journal.steps) if one.name == step)
        self._lab.cluster.wait_until(
            lambda: all(
                self._lab.state(one).leader == DESIGNEE
                if step == "elect"
                else self._lab.state(one).assignment == tuple(item["order"])
                for one, item in items.items()
            ),
            f"{step} to be carried out",
        )


def swallow(watched: Watched, api_key: int) -> None:
    """No answer comes to the next request, whichever broker it goes to."""
    for proxy in watched.proxies.values():
        proxy.swallow_next(api_key)


@pytest.fixture
def killed(lab: Damaged, partitions: list[TopicPartition], tmp_path: Path) -> Interrupted:
    return Interrupted(lab, partitions, tmp_path)


@contextmanager
def resumed(lab: Damaged, view: JournalView) -> Iterator[Resume]:
    """The journal taken up in another state folder, as a colleague would."""
    connection = Connection(ConnectionOptions(lab.cluster.bootstrap_servers)).armed()
    cluster_id = lab.truth.cluster_id
    with connection.reading() as client, connection.power("a test").elections(cluster_id) as armed:
        found = survey(client, view, 10.0)
        journal, _ = Journal.resume(view.path, view.path.parent / "colleague")
        with journal:
            yield Resume(Recovery(armed, journal, route_for(found.native)), found)


def finished(resume: Resume) -> list[PartitionOutcome]:
    """What is left, finished, with the end in the journal as the act writes it."""
    done = [outcome for batch in resume.finish() for outcome in batch]
    return _ended(resume, ended_as(resume.survey.to_finish, done), done)


def undone(resume: Resume) -> list[PartitionOutcome]:
    """The orders put back, with the end in the journal as the act writes it."""
    done = [outcome for batch in resume.undo() for outcome in batch]
    return _ended(resume, ended_as(resume.survey.remains, done, undone=True), done)


def _ended(
    resume: Resume, result: str | None, done: list[PartitionOutcome]
) -> list[PartitionOutcome]:
    if result is not None:
        resume.recovery.journal.finish(result)
    return done


def is_as_it_was(now: PartitionState, was: PartitionState) -> bool:
    return (now.assignment, now.leader) == (was.assignment, None)


def assert_as_planned(lab: Damaged, before: Sequence[PartitionState], view: JournalView) -> None:
    """Led by the designee, in the order that they had, and the journal says so."""
    lab.cluster.wait_until(
        lambda: all(is_as_planned(lab.state(was.partition), was) for was in before),
        "the designees to lead, in the order that was",
    )
    assert (view.result, view.unsettled) == ("succeeded", ())


def is_as_planned(state: PartitionState, was: PartitionState) -> bool:
    return state.leader == DESIGNEE and state.assignment == was.assignment


ANNOUNCED = [
    ("consent", "-", 1),
    ("request", "reorder", 1),
    ("request", "elect", 1),
    ("request", "restore order", 1),
    ("request", "reorder", 2),
    ("request", "elect", 2),
]


@pytest.mark.parametrize(("kind", "step", "number"), ANNOUNCED)
def test_killed_before_a_step_was_sent_resume_finishes_the_plan(
    lab: Damaged,
    killed: Interrupted,
    before: list[PartitionState],
    kind: str,
    step: str,
    number: int,
) -> None:
    with watched(lab.cluster) as session:
        view = killed.killed_at(session, kind, step, number)
    assert view.result is None
    assert consented(view)
    with resumed(lab, view) as resume:
        outcomes = finished(resume)
    assert len(outcomes) == TOGETHER
    assert all(outcome.succeeded for outcome in outcomes)
    assert_as_planned(lab, before, killed.journal)


@pytest.mark.parametrize(
    ("step", "api_key", "after"),
    [
        ("reorder", ALTER_PARTITION_REASSIGNMENTS, ""),
        ("elect", ELECT_LEADERS, ""),
        ("restore order", ALTER_PARTITION_REASSIGNMENTS, "elect"),
    ],
)
def test_killed_before_a_step_was_answered_resume_finds_out_and_finishes(
    lab: Damaged,
    killed: Interrupted,
    before: list[PartitionState],
    step: str,
    api_key: int,
    after: str,
) -> None:
    with watched(lab.cluster) as session:
        if after:
            for proxy in session.proxies.values():
                proxy.delay(0.1)
        view = killed.killed_without_answer(session, step, api_key, after=after)
    assert [step.name for step in view.unsettled] == [step]
    with resumed(lab, view) as resume:
        assert all(outcome.succeeded for outcome in finished(resume))
    assert_as_planned(lab, before, killed.journal)


def test_killed_between_reorder_and_election_it_can_be_undone(
    lab: Damaged, killed: Interrupted, before: list[PartitionState]
) -> None:
    with watched(lab.cluster) as session:
        view = killed.killed_at(session, "request", "elect", 1)
    with resumed(lab, view) as resume:
        outcomes = undone(resume)
    assert {outcome.result for outcome in outcomes} == {RecoveryResult.UNDONE}
    lab.cluster.wait_until(
        lambda: all(is_as_it_was(lab.state(was.partition), was) for was in before),
        "the order that was, and no leader",
    )
    assert killed.journal.result == "undone"


def test_an_election_that_was_held_is_not_undone_and_is_named(
    lab: Damaged, killed: Interrupted, partitions: list[TopicPartition]
) -> None:
    with watched(lab.cluster) as session:
        view = killed.killed_at(session, "request", "restore order", 1)
    with resumed(lab, view) as resume:
        outcomes = {outcome.partition: outcome for outcome in undone(resume)}
    held = outcomes.pop(partitions[0])
    assert (held.result, held.reason) == (
        RecoveryResult.REFUSED,
        "b1 leads it: an election cannot be undone",
    )
    assert {outcome.result for outcome in outcomes.values()} == {RecoveryResult.UNDONE}
    assert killed.journal.result == "partly failed"
