"""What a killed run has committed and not told: the next one tells it, once."""

from pathlib import Path

import pytest

from breakglass.services.errors import MalformedInput
from breakglass.services.pipeline.backup import said
from breakglass.services.pipeline.backup_context import BackupReport, TopicReport
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.notes import UNSAID, Unsaid, note_unsaid, read_unsaid
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.summary import Gap, GapReason, Unproved
from tests.unit.topic_backup.backups import back_up, manifest_of
from tests.unit.topic_backup.shapes import run

COMMITTED, NOT_COMMITTED = Gap(2, 5, GapReason.LOST), Gap(30, 40, GapReason.LOST)
DOUBT = Unproved(0, 5, "nothing vouches for them")


def test_b30_what_a_killed_run_committed_is_told_by_the_next_one_and_forgotten_once_it_is(
    tmp_path: Path,
) -> None:
    topic = back_up(tmp_path, run(0, 20))
    folder = LocalFolder(topic)
    assert not read_unsaid(folder)
    left = Unsaid({0: [COMMITTED, NOT_COMMITTED]}, {0: [DOUBT]}, "created again", other_log=True)
    note_unsaid(folder, left)
    assert read_unsaid(folder) == left
    told = read_unsaid(folder).committed(manifest_of(topic))
    assert (told.lost, told.unproved) == ({0: [COMMITTED]}, {0: [DOUBT]})
    assert told.other_log
    report = TopicReport("orders", str(topic), new_generation="created again", error="full")
    said(LocalStore(tmp_path), BackupReport([report]))
    assert read_unsaid(folder)
    report.error = ""
    said(LocalStore(tmp_path), BackupReport([report]))
    assert not read_unsaid(folder)


@pytest.mark.parametrize("content", ["", "[]", '{"lost": {"0": [{"start": "x"}]}}'])
def test_a_note_that_cannot_be_read_is_an_error(tmp_path: Path, content: str) -> None:
    (tmp_path / UNSAID).write_text(content)
    with pytest.raises(MalformedInput):
        read_unsaid(LocalFolder(tmp_path))
