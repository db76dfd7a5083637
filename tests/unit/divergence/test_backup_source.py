"""Records of backups and checkpoints as a stream, whole and damaged."""

import random
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.checkpoint.protocol.values import CopyId
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.divergence.address import parse_address
from breakglass.services.divergence.align import Comparison, PairKind, RecordPair, runs
from breakglass.services.divergence.backup_source import BackupSource
from breakglass.services.divergence.entry import Item, RecordEntry, UnreadableRange, address
from breakglass.services.divergence.opening import open_backup, open_checkpoint
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.errors import UsageError
from breakglass.services.record_batches import Record
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import segment_index_name
from tests.fuzz.damage import Damage, damage
from tests.kit.extent import examples
from tests.unit.checkpoint.store.stores import manifest, reserved
from tests.unit.topic_backup.backups import (
    FIRST,
    INDEX,
    RECORDS,
    back_up,
    cut_to,
    overwrite,
)
from tests.unit.topic_backup.shapes import log, run

READING = Reading()
SIZE = 40
"""Of a plain record."""
with_folders = settings(max_examples=examples(30))


def opened(topic: Path) -> BackupSource:
    return open_backup("backup:x/orders/0", LocalFolder(topic), 0)


def told(topic: Path, start: int = 0, end: int = 2**62) -> list[Item]:
    return list(opened(topic).read(start, end, READING))


def offsets(items: list[Item]) -> list[int]:
    return [item.offset for item in items if isinstance(item, RecordEntry)]


def damages(items: list[Item]) -> list[tuple[int, int]]:
    return [(item.start, item.end) for item in items if isinstance(item, UnreadableRange)]


def test_a_damaged_record_is_told_alone_and_a_cut_segment_from_the_cut_on(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 50))
    overwrite(topic / RECORDS, 1 + 20 * SIZE + 20, b"\x7f\xff\xff\xff")
    cut_to(topic / RECORDS, 1 + 46 * SIZE + 7)
    items = told(topic)
    assert damages(items) == [(20, 21), (46, 50)]
    assert offsets(items) == [*range(20), *range(21, 46)]
    assert all(RECORDS in item.reason for item in items if isinstance(item, UnreadableRange))


@with_folders
@given(records=log(min_size=1), spoil=damage(), of=st.sampled_from([RECORDS, INDEX]))
def test_whatever_is_damaged_the_stream_is_in_order_and_ends(
    tmp_path_factory: pytest.TempPathFactory, records: list[Record], spoil: Damage, of: str
) -> None:
    topic = back_up(tmp_path_factory.mktemp("b"), records)
    path = topic / of
    path.write_bytes(spoil(path.read_bytes()))
    items = told(topic, 0, 2**63 - 1)
    places = [address(item) for item in items]
    assert places == sorted(set(places))


def kinds(left: Path, right: Path) -> dict[int, PairKind]:
    comparison = Comparison(opened(left), opened(right))
    found = [pair for pair in runs(comparison, 0, 2**62, READING) if isinstance(pair, RecordPair)]
    return {pair.offset: pair.kind for pair in found if pair.kind is not PairKind.EQUAL}


changes = st.dictionaries(st.integers(0, 59), st.sampled_from(["drop", "value"]), max_size=6)


@with_folders
@given(edits=changes, limits=st.tuples(st.integers(200, 3_000), st.integers(200, 3_000)))
def test_exactly_the_edits_are_found_however_segments_are_cut(
    tmp_path_factory: pytest.TempPathFactory, edits: dict[int, str], limits: tuple[int, int]
) -> None:
    after = [
        one._replace(value=b"other") if edits.get(one.offset) == "value" else one
        for one in run(0, 60)
        if edits.get(one.offset) != "drop"
    ]
    folder = tmp_path_factory.mktemp("b")
    left = back_up(folder / "a", run(0, 60), max_segment_bytes=limits[0])
    right = back_up(folder / "b", after, max_segment_bytes=limits[1])
    told = {"drop": PairKind.LEFT, "value": PairKind.DIFFERENT}
    assert kinds(left, right) == {offset: told[edit] for offset, edit in edits.items()}
    told["drop"] = PairKind.RIGHT
    assert kinds(right, left) == {offset: told[edit] for offset, edit in edits.items()}
    assert kinds(left, left) == {}


def test_no_flipped_bit_of_an_index_hides_a_difference(tmp_path: Path) -> None:
    records = [record for record in run(0, 40) if record.offset % 5]
    without = [record for record in records if record.offset != 21]
    without[-1] = without[-1]._replace(value=b"other")
    left, right = back_up(tmp_path / "a", records), back_up(tmp_path / "b", without)
    expected = kinds(left, right)
    assert expected == {21: PairKind.LEFT, 39: PairKind.DIFFERENT}
    path = left / segment_index_name(FIRST)
    content = path.read_bytes()
    bits = range(8, 8 * len(content))
    for bit in random.Random(36).sample(bits, examples(200)):
        changed = bytearray(content)
        changed[bit // 8] ^= 1 << bit % 8
        path.write_bytes(changed)
        assert kinds(left, right) == expected, f"bit {bit}"


def test_equal_bytes_of_another_epoch_are_not_the_same(tmp_path: Path) -> None:
    from breakglass.services.topic_backup.summary import EpochStart

    source = opened(back_up(tmp_path, run(0, 100)))
    one = replace(source, epochs=(EpochStart(3, 0), EpochStart(5, 60)))
    other = replace(source, epochs=(EpochStart(3, 0), EpochStart(4, 60)))
    found = list(runs(Comparison(one, other), 0, 100, READING))
    differing = [each.offset for each in found if isinstance(each, RecordPair) and each.fields]
    assert differing == list(range(60, 100))


@pytest.mark.parametrize("completed", [True, False])
def test_records_of_a_copy_are_read_once_it_is_completed(tmp_path: Path, completed: bool) -> None:
    """Checkpoint 7 with a copy of orders-0 by node 3."""
    store, id = reserved(BackupStore(str(tmp_path)), 7), CopyId(7, 1, 3)
    store.copies.begin(id, 100, "1.0")
    back_up(tmp_path / "contents/7/1/3/segments", run(0, 100))
    if completed:
        store.copies.complete(id, manifest())
        source = open_checkpoint(parse_address(f"checkpoint:{tmp_path}/7/orders/0"))
        assert source.extent == Extent(0, 100)
        assert len(list(source.read(0, 100, Reading()))) == 100
    for missing in ("8/orders/0", "7/orders/9", *(() if completed else ("7/orders/0",))):
        with pytest.raises(UsageError):
            open_checkpoint(parse_address(f"checkpoint:{tmp_path}/{missing}"))
