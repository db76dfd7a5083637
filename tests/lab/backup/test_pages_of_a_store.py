"""Pages of a backup in an object store: a segment is proved once, whatever is wrong with it."""

from collections.abc import Callable
from pathlib import Path

import pytest

from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.divergence.opening import open_backup
from breakglass.services.divergence.source import Item, Reading, RecordEntry, UnreadableRange
from breakglass.services.topic_backup.folder import Folder, LocalFolder
from breakglass.services.topic_backup.store.store import ObjectStore
from tests.kit.s3_server import S3
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import plain

COUNT = 8_000
PAGE = 50
PAGES = 5


def as_it_is(content: bytes) -> bytes:
    return content


def a_value_changed(content: bytes) -> bytes:
    """A byte of the last value: every record keeps its form, and only the SHA-256 tells."""
    return content[:-6] + bytes([content[-6] ^ 1]) + content[-5:]


@pytest.fixture
def folder(s3: S3, topic: str, tmp_path: Path) -> Folder:
    """A backup of 8,000 records in one segment, in the store."""
    local = LocalFolder(back_up(tmp_path, (plain(number, bytes(1_000)) for number in range(COUNT))))
    folder = ObjectStore(f"{s3.url}/{topic}").folder("orders")
    for name in local.names():
        folder.replace(name, [(local.path / name).read_bytes()])
    return folder


def records_of(folder: Folder) -> str:
    """The name of the records file."""
    (name,) = [name for name in folder.names() if name.endswith("_records")]
    return name


def put(folder: Folder, change: Callable[[bytes], bytes]) -> int:
    """Put the records file again, after *change*; returns its bytes."""
    name = records_of(folder)
    with folder.open(name) as file:
        content = change(file.read())
    folder.replace(name, [content])
    return len(content)


def page(source: BackupSource, number: int) -> list[Item]:
    start = number * PAGE
    return list(source.read(start, start + PAGE, Reading()))


@pytest.mark.parametrize("damage", [as_it_is, a_value_changed], ids=lambda one: one.__name__)
def test_pages_read_the_segment_once_for_its_proof(
    s3: S3, folder: Folder, damage: Callable[[bytes], bytes]
) -> None:
    size = put(folder, damage)
    source = open_backup("backup:x/orders/0", folder, 0)
    before = s3.records_read.total()
    page(source, 0)
    proved = s3.records_read.total()
    assert proved - before >= size
    kind = RecordEntry if damage is as_it_is else UnreadableRange
    for number in range(PAGES):
        items = page(source, number)
        assert items
        assert all(isinstance(item, kind) for item in items)
    assert s3.records_read.total() - proved < PAGES * size / 2


def test_a_segment_replaced_by_another_of_its_size_is_proved_again(folder: Folder) -> None:
    source = open_backup("backup:x/orders/0", folder, 0)
    assert all(isinstance(item, RecordEntry) for item in page(source, 0))
    put(folder, a_value_changed)
    assert all(isinstance(item, UnreadableRange) for item in page(source, 0))
    put(folder, a_value_changed)
    assert all(isinstance(item, RecordEntry) for item in page(source, 0))
