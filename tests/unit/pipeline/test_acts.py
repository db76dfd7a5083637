"""Acts on backups go through the guard: what is agreed to, looked at again, and journalled."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.errors import ConsentMissing
from breakglass.services.guard import run as guard
from breakglass.services.guard.act import Front
from breakglass.services.guard.journal import list_journals
from breakglass.services.guard.journal_view import JournalView
from breakglass.services.guard.run import ConsentOutdated, GuardedRun
from breakglass.services.guard.steps import REBUILD_INDEXES
from breakglass.services.pipeline.acts.reindex import RebuildIndexes
from breakglass.services.topic_backup.layout import records_name, segment_prefix
from tests.unit.topic_backup.backups import RECORDS, as_the_originals, back_up
from tests.unit.topic_backup.shapes import run

PHRASE = "rebuild 1 index of orders"


def test_indexes_are_rebuilt_once_agreed_to_and_the_journal_has_it(tmp_path: Path) -> None:
    topic = back_up(tmp_path / "store", run(0, 3))
    act = GuardedRun(RebuildIndexes(str(topic)), Front(state_folder=tmp_path / "state"))
    frozen = act.freeze()
    assert [asked.phrase for asked in frozen.asked] == [PHRASE]
    assert frozen.targets == ("orders-0",)
    with pytest.raises(ConsentMissing):
        act.carry_out(None, frozen, ["rebuild it"])
    (rebuilt,) = act.carry_out(None, frozen, [PHRASE]).value
    assert rebuilt.entries == 3
    (view,) = list_journals(frozen.cluster_id, tmp_path / "state")
    assert isinstance(view, JournalView)
    assert [(step.name, [str(name) for name in step.items]) for step in view.steps] == [
        (REBUILD_INDEXES, ["orders-0"])
    ]


def test_another_segment_since_the_consent_refuses(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(guard, "FRESH_SECONDS", 0.0)
    topic = as_the_originals(back_up(tmp_path / "store", run(0, 3)))
    act = GuardedRun(RebuildIndexes(str(topic)), Front(state_folder=tmp_path / "state"))
    frozen = act.freeze()
    before = {path: path.read_bytes() for path in topic.iterdir() if path.is_file()}
    other = topic / records_name(segment_prefix(0, 3))
    other.write_bytes((topic / RECORDS).read_bytes())
    with pytest.raises(ConsentOutdated, match="orders-0: it was"):
        act.carry_out(None, frozen, [PHRASE])
    assert all(path.read_bytes() == bytes_ for path, bytes_ in before.items())
