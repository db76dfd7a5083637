"""Records that were marked, written whole: as JSON lines, or as a backup."""

from __future__ import annotations

import base64
import json
import stat
from pathlib import Path

import pytest

from breakglass.services.browse.export import export, runs
from breakglass.services.divergence.backup_opening import open_backup
from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.divergence.source import Reading
from breakglass.services.errors import UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.topic_backup.folder import LocalFolder
from tests.unit.topic_backup.backups import back_up, read
from tests.unit.topic_backup.shapes import plain, run

ORDERS = TopicPartition("orders", 0)
READING = Reading()


@pytest.fixture
def source(tmp_path: Path) -> BackupSource:
    """Records 0 to 9; the value of 5 is large, that of 6 no text, and 6 has odd headers."""
    records = list(run(0, 10))
    records[5] = plain(5, value=b"x" * 100_000)
    odd = ((b"h", None), (b"h", b""))
    records[6] = plain(6, value=b"\xff\x00", key=None)._replace(headers=odd)
    return open_backup("x", LocalFolder(back_up(tmp_path / "b", records)), 0)


def test_json_lines_hold_records_whole_for_their_owner_alone(
    source: BackupSource, tmp_path: Path
) -> None:
    to = tmp_path / "marked.jsonl"
    assert export(source, ORDERS, {6, 5, 1}, to, READING) == 3
    one, large, odd = map(json.loads, to.read_text().splitlines())
    assert (one["offset"], one["key"], one["bytes"]) == (1, "key", "utf8")
    assert large["value"] == "x" * 100_000
    assert (odd["bytes"], odd["key"]) == ("base64", None)
    assert base64.b64decode(odd["value"]) == b"\xff\x00"
    assert stat.S_IMODE(to.stat().st_mode) == 0o600


def test_a_folder_becomes_a_backup_of_exactly_those_records(
    source: BackupSource, tmp_path: Path
) -> None:
    assert export(source, ORDERS, {5, 6}, tmp_path / "kept", READING) == 2
    held = read(tmp_path / "kept" / "orders")
    assert [(record.offset, len(record.value or b""), record.headers) for record in held] == [
        (5, 100_000, ()),
        (6, 2, ((b"h", None), (b"h", b""))),
    ]


def test_what_is_there_is_never_written_over(source: BackupSource, tmp_path: Path) -> None:
    to = tmp_path / "there.jsonl"
    to.write_text("mine")
    with pytest.raises(UsageError, match="is there already"):
        export(source, ORDERS, {1}, to, READING)
    assert to.read_text() == "mine"


def test_neighbours_are_read_together() -> None:
    assert list(runs({3, 1, 2, 7, 9, 8})) == [(1, 4), (7, 10)]
    assert list(runs(set())) == []
