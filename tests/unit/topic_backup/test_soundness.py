"""A segment is proved once for each state of its file; a failed reading is not remembered."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import BinaryIO

import pytest

from breakglass.services.errors import StorageError
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import records_name
from breakglass.services.topic_backup.soundness import OTHER_BYTES, altered
from breakglass.services.topic_backup.store.runs_folder import RunsFolder
from breakglass.services.topic_backup.summary import SegmentSummary
from tests.unit.topic_backup.backups import back_up, committed
from tests.unit.topic_backup.shapes import run
from tests.unit.topic_backup.store.stores import COMPRESSED, PLAIN, in_memory, on_disk, runs_folder


class CountedFolder(LocalFolder):
    """Counts how often a file is opened; while it is broken, none can be."""

    opened = 0
    broken = False

    def open(self, name: str) -> BinaryIO:
        self.opened += 1
        if self.broken:
            raise StorageError(f"{name}: the store does not answer.")
        return super().open(name)


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    """A hundred records in one segment."""
    return back_up(tmp_path / "backup", run(0, 100))


@pytest.fixture
def segment(topic: Path) -> SegmentSummary:
    """That segment as it was committed."""
    part = committed(topic)
    assert part is not None
    return part.segments[0]


@pytest.fixture
def in_store(topic: Path) -> Iterator[RunsFolder]:
    """The same in a store that proves nothing about its objects."""
    with in_memory() as store:
        yield copied(topic, runs_folder(store, PLAIN))


def copied(topic: Path, folder: RunsFolder) -> RunsFolder:
    """*folder* with the files of *topic*."""
    local = LocalFolder(topic)
    for name in local.names():
        folder.replace(name, [(topic / name).read_bytes()])
    return folder


def changed(content: bytes) -> bytes:
    return content[:-6] + bytes([content[-6] ^ 1]) + content[-5:]


def test_a_file_that_did_not_change_is_read_once(topic: Path, segment: SegmentSummary) -> None:
    folder = CountedFolder(topic)
    assert [altered(folder, segment) for _ in range(3)] == ["", "", ""]
    assert folder.opened == 1


def test_a_reading_that_failed_is_not_remembered(topic: Path, segment: SegmentSummary) -> None:
    folder = CountedFolder(topic)
    folder.broken = True
    assert "does not answer" in altered(folder, segment)
    folder.broken = False
    assert altered(folder, segment) == ""


def test_an_object_is_read_again_where_the_store_does_not_prove_it_unchanged(
    topic: Path, segment: SegmentSummary, in_store: RunsFolder
) -> None:
    name = records_name(segment.prefix)
    assert in_store.state(name) is None
    assert altered(in_store, segment) == ""
    in_store.replace(name, [changed((topic / name).read_bytes())])
    assert altered(in_store, segment) == OTHER_BYTES


def test_a_compressed_file_that_was_replaced_is_proved_again(
    topic: Path, segment: SegmentSummary, tmp_path: Path
) -> None:
    folder = copied(topic, runs_folder(on_disk(tmp_path / "runs"), COMPRESSED))
    name = records_name(segment.prefix)
    assert folder.state(name) is not None
    assert altered(folder, segment) == ""
    folder.replace(name, [changed((topic / name).read_bytes())])
    assert altered(folder, segment) == OTHER_BYTES
