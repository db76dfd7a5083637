"""Restores of damaged backups: refused with the offsets named, then without them and not whole."""

import shutil
from collections.abc import Sequence
from pathlib import Path

import pytest

from breakglass.services.errors import Refused
from breakglass.services.guard.journal import JournalView, list_journals
from breakglass.services.lab.cluster import Cluster
from tests.lab.backup.backups import BackUp
from tests.lab.backup.independent import contents, stored
from tests.lab.backup.producing import make, numbered, produce
from tests.lab.backup.restores import Restore

RESUMED = Path(__file__).parents[2] / "golden" / "topic_backup_resumed"
COUNT = 300
FIVE_SEGMENTS = 2_500
"""Bytes of a segment, of which 300 small records fill five."""


@pytest.fixture
def records(whole_broker: Cluster, back_up: BackUp, topic: str) -> Sequence[Path]:
    """The records files, oldest first, of a backup of 300 records in five segments."""
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(COUNT))
    back_up.topic(topic, max_segment_bytes=FIVE_SEGMENTS)
    return sorted(back_up.folder(topic).path.glob("segment_*_records"))


def lost_of(back_up: BackUp, topic: str, place: int) -> range:
    """The offsets of the segment at *place*, as they were committed."""
    segment = back_up.manifest(topic).partitions[0].segments[place]
    assert segment.first_offset is not None
    assert segment.last_offset is not None
    return range(segment.first_offset, segment.last_offset + 1)


def journal_of(restore: Restore) -> JournalView:
    """The journal of the only restore."""
    cluster_id = restore.back_up.client.describe(restore.deadline).cluster_id
    (view,) = list_journals(cluster_id, restore.state)
    assert isinstance(view, JournalView)
    return view


def results(view: JournalView) -> set[str]:
    """What the journal says became of partitions."""
    return {outcome.result for step in view.steps for outcome in step.outcomes.values()}


def test_a_restore_of_a_damaged_backup_names_its_gap_everywhere(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str, records: Sequence[Path]
) -> None:
    assert len(records) == 5
    lost = lost_of(back_up, topic, 1)
    gap = f"{topic}-0 {lost.start}..{lost.stop - 1}"
    records[1].write_bytes(records[1].read_bytes()[:-1])
    target = f"{topic}-back"
    with pytest.raises(Refused, match=f'--accept-gaps "{gap}"'):
        restore.plan(topic, target)
    assert not restore.exists(target)
    done = restore(restore.plan(topic, target, accepted_gaps=(gap,)))
    assert (done.error, done.gaps, done.records) == ("", [gap], COUNT - len(lost))
    assert not done.complete
    before = contents(whole_broker, topic)
    assert contents(whole_broker, target) == before[: lost.start] + before[lost.stop :]
    journal = journal_of(restore)
    assert "restored with gaps" in results(journal)
    assert "restored" not in results(journal)
    assert gap in journal.path.read_text()


@pytest.mark.parametrize("case", ["resumed_double", "resumed_half_entry", "resumed_stray"])
def test_what_a_killed_original_left_is_restored_whole_and_called_salvaged(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str, case: str
) -> None:
    """Nothing is lost, so no offset has to be named."""
    shutil.copytree(RESUMED / case / "orders", back_up.root / topic)
    # The records are of 2023: a broker's own retention would remove them at once.
    kept = {"settings": {"retention.ms": "-1"}}
    done = restore(restore.plan(topic, f"{topic}-back", **kept))
    assert (done.error, done.gaps, done.records, done.salvaged) == ("", [], 10, True)
    assert not done.complete
    written = [content for _, content in stored(RESUMED / "whole" / "orders", 0)]
    assert contents(whole_broker, f"{topic}-back") == written
    assert "restored, salvaged" in results(journal_of(restore))
