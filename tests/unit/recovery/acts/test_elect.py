"""A guarded election: what it asks for, what it tells, and that it runs once.

A journal taken up again: what it needs, what it tells, and what it never does twice.
"""

from pathlib import Path
from typing import NoReturn

import pytest

from breakglass.services.errors import AlreadyRunning, ConsentMissing, EvidenceChanged, WrongCluster
from breakglass.services.guard.act import Armed, JournalOpened
from breakglass.services.guard.journal import Journal, read
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.recovery.acts.elect import (
    BatchBegun,
    OutcomesReported,
    RescueEnded,
    RescueProgressed,
    open_journals,
)
from breakglass.services.recovery.execution.target import RecoveryResult
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.unfinished import consented
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.kafka.replicas.held_log import HeldLog
from tests.unit.recovery.guarded.conftest import Session
from tests.unit.topic_backup.batch_bytes import batch
from tests.unit.topic_backup.shapes import run

PHRASE = "3 partitions lose 0 and abandon b3"
ELECTED, NOT_ATTEMPTED = RecoveryResult.ELECTED, RecoveryResult.NOT_ATTEMPTED


def test_everything_that_happens_is_reported_in_order_and_journalled(session: Session) -> None:
    session.offline(count=3)
    outcomes = session.election(session.wanted(), digest="abc").run([PHRASE])
    assert [outcome.result for outcome in outcomes] == [ELECTED] * 3
    reported = [JournalOpened, Armed, *2 * [BatchBegun, OutcomesReported]]
    assert [type(event) for event in session.told] == reported
    batches = [len(event.partitions) for event in session.told if isinstance(event, BatchBegun)]
    assert batches == [1, 2], "the canary first"
    assert (session.endings, session.leaders()) == (["succeeded"], {1})
    (journal,) = session.journals()
    (opened,) = (event for event in session.told if isinstance(event, JournalOpened))
    assert (opened.path, journal.result) == (journal.path, "succeeded")
    assert journal.plan is not None
    assert journal.plan.payload["digest"] == "abc"
    assert journal.consent is not None
    assert journal.consent.payload["phrase"] == PHRASE


@pytest.mark.parametrize("given", [(), ("3 partitions lose 1",), ("orders-0 lose 0",)])
def test_without_the_phrase_nothing_exists_and_nothing_is_sent(
    session: Session, given: tuple[str, ...]
) -> None:
    session.offline(count=3)
    election = session.election(session.wanted())
    with pytest.raises(ConsentMissing) as refused:
        election.run(given)
    assert refused.value.phrase == PHRASE
    assert (session.told, session.journals(), session.controller.steps) == ([], [], [])


def test_addresses_that_lead_elsewhere_by_now_elect_nothing(session: Session) -> None:
    session.offline()
    election = session.election(session.wanted())
    session.cluster.story.cluster_id = "another"
    with pytest.raises(WrongCluster):
        election.run(election.phrases)
    assert session.controller.steps == []


def test_what_ends_badly_is_partly_failed(session: Session) -> None:
    session.offline()
    election = session.election(session.wanted())
    session.cluster.story.fenced = {1, 3}
    (outcome,) = election.run(election.phrases)
    assert (outcome.result, session.endings) == (RecoveryResult.REFUSED, ["partly failed"])


def test_a_rescue_reports_its_progress_and_its_results(session: Session) -> None:
    (partition,) = session.offline()
    session.cluster.hold(2, partition, (0, 100))
    session.cluster.hold(1, partition, (0, 100), (4, 20))
    wanted = session.wanted(designee=2)
    logs = [batch(run(n, n + 10), epoch=0 if n < 100 else 4) for n in range(0, 120, 10)]
    HeldLog(partition, logs).serve(session.cluster.brokers[1])
    rescue = RescueChoice(to=session.state / "rescue")
    election = session.election(wanted, rescue=rescue)
    election.run(election.phrases)
    progress = [event.progress for event in session.told if isinstance(event, RescueProgressed)]
    (ended,) = (event for event in session.told if isinstance(event, RescueEnded))
    assert (progress[0].partitions, progress[0].copied, progress[0].at_most) == (1, 0, 20)
    assert progress[0].folder.is_relative_to(session.state / "rescue")
    assert [result.records for result in ended.results] == [20]
    assert session.leaders() == {2}


RESUME_PHRASE = "2 partitions lose 0 and abandon b3"


class Killed(BaseException):
    """Ends the session as kill -9 would, as far as its files are concerned."""


def die(*_: object, **__: object) -> NoReturn:
    raise Killed


def killed(session: Session, monkeypatch: pytest.MonkeyPatch, owner: type, step: str) -> Path:
    """The journal of an election of two partitions that ended when it came to *step*."""
    session.offline(count=2)
    wanted = session.wanted()
    with monkeypatch.context() as patched:
        patched.setattr(owner, step, die)
        with pytest.raises(Killed):
            session.election(wanted).run([RESUME_PHRASE])
    session.told.clear()
    (journal,) = session.journals()
    return journal.path


def test_a_consent_to_undo_is_none_to_elect(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(session, monkeypatch, Journal, "consent")
    session.resumed(path, undo=True).run(("undo 2 partitions",))
    view = read(path)
    assert (view.result, consented(view)) == ("undone", False)
    assert session.resumed(path).phrases == [RESUME_PHRASE]


def test_a_resume_runs_once_and_not_after_its_journal_went_on(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(session, monkeypatch, ElectionClient, "elect")
    first, second = session.resumed(path), session.resumed(path)
    first.run(())
    with pytest.raises(AlreadyRunning):
        first.run(())
    sent = session.controller.steps
    with pytest.raises(EvidenceChanged):
        second.run(())
    assert session.controller.steps == sent


def test_only_elections_that_are_not_done_are_open(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = killed(session, monkeypatch, ElectionClient, "elect")
    with Journal.open(CLUSTER_ID, session.state) as other:
        other.note("no election")
    (session.state / "journal" / f"cluster-{CLUSTER_ID}" / "broken.jsonl").write_text("{}\n")
    views, unreadable = open_journals(CLUSTER_ID, session.state)
    assert [view.path for view in views] == [path]
    assert [journal.path.name for journal in unreadable] == ["broken.jsonl"]
    session.resumed(path).run(())
    assert open_journals(CLUSTER_ID, session.state)[0] == []
