"""A journal taken up again: what it needs, what it tells, and what it never does twice."""

from pathlib import Path
from typing import NoReturn

import pytest

from breakglass.services.errors import AlreadyRunning, EvidenceChanged
from breakglass.services.guard.journal import Journal, read
from breakglass.services.kafka.election_client import ElectionClient
from breakglass.services.recovery.acts.resume import open_journals
from breakglass.services.recovery.unfinished import consented
from tests.kit.fake_metadata import CLUSTER_ID
from tests.unit.recovery.guarded.conftest import Session

PHRASE = "2 partitions lose 0 and abandon b3"


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
            session.election(wanted).run([PHRASE])
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
    assert session.resumed(path).phrases == [PHRASE]


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
