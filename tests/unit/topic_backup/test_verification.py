"""A damaged backup of ours or of Kafka Backup's: no reader calls it whole, and each says what."""

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from breakglass.console.backup import app
from breakglass.services.divergence.align import Comparison, PairKind, RecordPair, runs
from breakglass.services.divergence.entry import UnreadableRange
from breakglass.services.divergence.opening import open_backup
from breakglass.services.divergence.source import Reading, Same
from breakglass.services.errors import BreakglassError, Refused
from breakglass.services.pipeline.restore.options import RestoreOptions
from breakglass.services.pipeline.restore.plan import accepted_gaps, require_manifest
from breakglass.services.pipeline.restore.tail_plan import tail_sources
from breakglass.services.topic_backup.catalog import read_status
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import read_held, read_sound
from breakglass.services.topic_backup.layout import (
    MANIFEST,
    records_name,
    segment_index_name,
    segment_prefix,
)
from breakglass.services.topic_backup.manifest import read_manifest
from breakglass.services.topic_backup.notes import VERIFIED, note_verified
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.store.store import LocalStore
from breakglass.services.topic_backup.topic_writer import TopicWriter
from breakglass.services.topic_backup.verification import verify_files
from tests.unit.damage import Damage, cut, emptied, removed, swapped
from tests.unit.topic_backup.backups import (
    FIRST,
    ORDERS,
    as_the_originals,
    back_up,
    committed,
    segments,
)
from tests.unit.topic_backup.shapes import plain, run

SIZE = len(encode(plain(0)))
COUNT = 20


def replaced(path: Path, _: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content[:1] + bytes(byte ^ 0x55 for byte in content[1:]))


def one_byte_changed(path: Path, _: Path) -> None:
    content = bytearray(path.read_bytes())
    content[-6] ^= 1
    path.write_bytes(bytes(content))


def command(*words: str | Path) -> bool:
    return CliRunner().invoke(app, list(map(str, words))).exit_code == 0


def by_status(topic: Path) -> bool:
    result = CliRunner().invoke(app, ["list", "--store", str(topic.parent), "--json"])
    if isinstance(result.exception, BreakglassError):
        return False
    (found,) = json.loads(result.stdout)["topics"]
    assert (result.exit_code == 1) == found["damaged"]
    return bool(found["verified_now"]) and result.exit_code == 0


def by_cat(topic: Path) -> bool:
    return command("cat", f"{topic}/0")


def by_verify(topic: Path) -> bool:
    ended = CliRunner().invoke(app, ["verify", "--store", str(topic.parent)])
    *_, verdict = ("", *ended.stdout.split())
    assert (verdict in ("whole", "readable")) is (ended.exit_code == 0)
    assert verdict != "whole" or read_manifest(LocalFolder(topic)), "nothing vouches for it"
    return ended.exit_code == 0


def by_mending(topic: Path) -> bool:
    return command("repair", topic, "--out", topic.parent.parent / "mended")


def by_diff(topic: Path) -> bool:
    """`diff` and the screens Browse and Diff read by it."""
    source = open_backup("backup:x/orders/0", LocalFolder(topic), 0)
    items = list(source.read(0, 2**62, Reading()))
    return not any(isinstance(item, UnreadableRange) for item in items) and len(items) == COUNT


def by_diff_with_a_copy(topic: Path) -> bool:
    """Both sides have the same bytes, damaged alike."""
    left, right = (open_backup("backup:x/orders/0", LocalFolder(topic), 0) for _ in range(2))
    found = list(runs(Comparison(left, right), 0, COUNT, Reading()))
    if any(isinstance(item, RecordPair) and item.kind is PairKind.UNREAD for item in found):
        return False
    return sum(item.entries if isinstance(item, Same) else 1 for item in found) == COUNT


def by_restore(topic: Path) -> bool:
    held = read_held(LocalFolder(topic), "orders")
    require_manifest(held)
    held = read_sound(held, {0})
    accepted_gaps(held, "orders", held.partitions, RestoreOptions())
    return not held.salvaged


def by_putting_back(topic: Path) -> bool:
    """`restore --tail-of`, of a backup or a rescue: it takes whole folders alone."""
    (source,) = tail_sources(LocalStore(topic.parent))
    return not source.held.salvaged


READERS: tuple[Callable[[Path], bool], ...] = (
    by_status,
    by_cat,
    by_verify,
    by_diff,
    by_diff_with_a_copy,
    by_restore,
    by_putting_back,
    by_mending,
)
BY_INDEXES = {by_cat, by_diff, by_diff_with_a_copy, by_mending}
"""They read records without a manifest, too."""


def whole_to(topic: Path) -> set[Callable[[Path], bool]]:
    """The readers that call the backup whole."""
    return {reader for reader in READERS if whole_by(reader, topic)}


def whole_by(reader: Callable[[Path], bool], topic: Path) -> bool:
    try:
        return reader(topic)
    except BreakglassError:
        return False


DAMAGES = (removed, emptied, replaced, one_byte_changed, cut, swapped)
by_damage = pytest.mark.parametrize("damage", DAMAGES, ids=lambda one: one.__name__)


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    """Twenty records in five segments, verified."""
    topic = back_up(tmp_path / "backups", run(0, COUNT), max_segment_bytes=4 * SIZE - 1)
    assert len(segments(topic)) == 5
    note_verified(LocalFolder(topic), 1, "files", None, whole=True)
    return topic


def spoil(topic: Path, damage: Damage, place: int, name: Callable[[str], str]) -> None:
    prefixes = segments(topic)
    damage(topic / name(prefixes[place]), topic / name(prefixes[(place + 1) % 5]))


@pytest.mark.parametrize(
    ("place", "damage"),
    [*((0, damage) for damage in DAMAGES), (4, removed), (4, cut)],
    ids=lambda one: getattr(one, "__name__", f"segment {one}"),
)
def test_no_reader_says_of_damaged_records_that_they_are_whole(
    topic: Path, place: int, damage: Damage
) -> None:
    """Without a manifest nothing tells of one byte in a value: the format has no sums."""
    assert place or whole_to(topic) == set(READERS)
    spoil(topic, damage, place, records_name)
    assert whole_to(topic) == set()
    noted = note_verified(LocalFolder(topic), 1, "files", None, whole=False)
    assert "whole" not in noted.verdict
    (topic / VERIFIED).unlink()
    found = whole_to(as_the_originals(topic)) - {by_status}
    assert found == set() or damage is one_byte_changed


@by_damage
def test_damage_to_an_index_costs_no_record_where_there_is_a_manifest_and_else_is_said(
    topic: Path, damage: Damage
) -> None:
    spoil(topic, damage, 0, segment_index_name)
    assert {by_cat, by_diff, by_restore} <= whole_to(topic)
    assert not by_verify(topic) or damage is one_byte_changed
    (topic / VERIFIED).unlink()
    result = CliRunner().invoke(app, ["cat", f"{as_the_originals(topic)}/0"])
    assert len(result.stdout.splitlines()) == COUNT or result.exit_code == 1


@by_damage
def test_damage_to_a_partition_index_is_found_by_verify(topic: Path, damage: Damage) -> None:
    damage(topic / "index_partition_000", topic / segment_index_name(segments(topic)[0]))
    assert not by_verify(topic)


@pytest.mark.parametrize("damage", [removed, emptied, replaced], ids=lambda one: one.__name__)
def test_no_reader_says_that_a_backup_with_a_damaged_manifest_is_whole(
    topic: Path, damage: Damage
) -> None:
    damage(topic / MANIFEST, topic)
    assert whole_to(topic) <= BY_INDEXES


def older(topic: Path) -> None:
    before = (topic / MANIFEST).read_bytes()
    back_up(topic.parent, run(COUNT, COUNT + 1), max_segment_bytes=4 * SIZE - 1)
    assert by_verify(topic)
    (topic / MANIFEST).write_bytes(before)


def without(*names: str) -> Callable[[Path], None]:
    def remove(topic: Path) -> None:
        for name in names:
            (topic / name).unlink()

    return remove


READ = {by_cat, by_diff, by_diff_with_a_copy}
EVERY = set(READERS)


@pytest.mark.parametrize(
    ("change", "whole"),
    [
        pytest.param(without(MANIFEST), READ, id="the manifest is gone"),
        pytest.param(older, READ | {by_mending}, id="it is an older one"),
        pytest.param(
            without(MANIFEST, VERIFIED),
            # Their words are "readable" and "not proved", never "whole" and "identical".
            EVERY - {by_status, by_mending},
            id="nothing says that there was one",
        ),
        pytest.param(without(VERIFIED), EVERY - {by_status}, id="it was never verified"),
        pytest.param(
            without(segment_index_name(FIRST)), EVERY - {by_status, by_verify}, id="no index"
        ),
    ],
)
def test_b19_a_side_file_that_is_gone_or_older_proves_nothing(
    topic: Path, change: Callable[[Path], None], whole: set[Callable[[Path], bool]]
) -> None:
    change(topic)
    assert whole_to(topic) == whole
    assert by_verify in whole or not whole_by(by_status, topic), "to look is not to prove"


def test_b19_bytes_that_no_commit_has_are_named(topic: Path) -> None:
    last = topic / records_name(segments(topic)[-1])
    last.write_bytes(last.read_bytes() + b"left")
    (topic / records_name(segment_prefix(3, 0))).write_bytes(b"\x01")
    found = verify_files(LocalFolder(topic))
    assert (found.whole, len(found.uncommitted)) == (True, 2)
    assert f"{last}: 4 bytes" in found.uncommitted[0]
    (status,) = read_status(LocalStore(topic.parent))
    assert list(status.uncommitted) == found.uncommitted


def test_a_restore_names_the_offsets_it_refuses_and_takes_them_when_they_are_accepted(
    topic: Path,
) -> None:
    (topic / records_name(segments(topic)[1])).unlink()
    held = read_sound(read_held(LocalFolder(topic), "orders"), {0})
    with pytest.raises(Refused, match=r"orders-0 4\.\.7"):
        accepted_gaps(held, "orders", held.partitions, RestoreOptions())
    options = RestoreOptions(accepted_gaps=("orders-0  4..7",))
    assert accepted_gaps(held, "orders", held.partitions, options) == ("orders-0 4..7",)
    kept = [segment.first_offset for segment in held.partitions[0].segments]
    assert kept == [0, 8, 12, 16]


def test_a_run_goes_on_without_the_oldest_segment_and_does_not_forget_it(topic: Path) -> None:
    (topic / records_name(segments(topic)[0])).unlink()
    with TopicWriter(topic.parent, ORDERS, max_segment_bytes=4 * SIZE) as writer:
        writer.partition(0).append(plain(COUNT))
        writer.commit()
    assert not whole_by(by_status, topic)
    assert not by_verify(topic)
    part = committed(topic)
    assert part is not None
    assert part.segments[0].start_offset == 0


@pytest.mark.parametrize("damage", [emptied, replaced, cut, swapped], ids=lambda one: one.__name__)
def test_a_run_does_not_write_behind_a_damaged_last_segment(topic: Path, damage: Damage) -> None:
    *_, before, last = segments(topic)
    damage(topic / records_name(last), topic / records_name(before))
    with (
        pytest.raises(BreakglassError),
        TopicWriter(topic.parent, ORDERS, max_segment_bytes=4 * SIZE) as writer,
    ):
        writer.partition(0)
