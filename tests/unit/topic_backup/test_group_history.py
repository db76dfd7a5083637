"""Offsets of groups beside a backup: what was changed is seen, what was not read is not lost."""

from dataclasses import replace
from pathlib import Path

import pytest

from breakglass.services.errors import BreakglassError, MalformedInput
from breakglass.services.pipeline.restore.groups import groups_of, lacking
from breakglass.services.topic_backup import group_history
from breakglass.services.topic_backup.assembler import assembling
from breakglass.services.topic_backup.catalog import HeldTopic, topic_status
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.folder_contents import read_held
from breakglass.services.topic_backup.group_history import read_offsets
from breakglass.services.topic_backup.layout import consumer_offsets_name
from breakglass.services.topic_backup.manifest import write_manifest
from breakglass.services.topic_backup.mending import mend
from breakglass.services.topic_backup.store.blobs import LocalBlobs
from breakglass.services.topic_backup.store.store import RunsFolder, open_store
from breakglass.services.topic_backup.verification import verify_files
from tests.unit.topic_backup.backups import ORDERS, back_up, manifest_of, overwrite
from tests.unit.topic_backup.crash_points import CrashPoints
from tests.unit.topic_backup.shapes import run

FIRST, SECOND = 10**12, 10**12 + 1
OFFSETS = consumer_offsets_name(0)


@pytest.fixture
def topic(tmp_path: Path) -> Path:
    """A backup with two states of two groups."""
    topic = back_up(tmp_path / "backup", run(0, 20))
    folder = LocalFolder(topic)
    group_history.update(folder, {0: {"billing": 3, "audit": 20}}, FIRST)
    group_history.update(folder, {0: {"billing": 12, "audit": 20}}, SECOND)
    return topic


def of_groups(topic: Path) -> list[Path]:
    return sorted([*topic.glob("breakglass_groups_*"), *topic.glob("consumer_offsets_*")])


def offsets(topic: Path) -> dict[str, int]:
    return group_history.newest_offsets(LocalFolder(topic), [0])[0]


def test_b17_no_flipped_bit_of_a_file_with_groups_is_called_whole(topic: Path) -> None:
    assert verify_files(LocalFolder(topic)).whole
    files = of_groups(topic)
    assert len(files) == 3
    for file in files:
        before = file.read_bytes()
        for bit in range(0, 8 * len(before), 7):
            byte = before[bit // 8] ^ (1 << bit % 8)
            overwrite(file, bit // 8, bytes([byte]))
            (damage,) = group_history.damages(LocalFolder(topic))
            assert damage[0] == file.name, bit
            file.write_bytes(before)
        overwrite(file, 5, b"~")
        (found,) = verify_files(LocalFolder(topic)).damages
        assert found.file.endswith(file.name)
        file.write_bytes(before)
    assert verify_files(LocalFolder(topic)).whole


@pytest.mark.parametrize("changed", [b"", b"{}", b'{"billing":13,"audit":20}', None])
def test_offsets_that_were_changed_are_not_restored_and_the_next_run_writes_them_again(
    topic: Path, changed: bytes | None
) -> None:
    before = (topic / OFFSETS).read_bytes()
    if changed is None:
        (topic / OFFSETS).unlink()
    else:
        (topic / OFFSETS).write_bytes(changed)
    assert not verify_files(LocalFolder(topic)).whole
    with pytest.raises(BreakglassError, match=OFFSETS):
        offsets(topic)
    group_history.update(LocalFolder(topic), {0: {"billing": 12, "audit": 20}})
    assert (topic / OFFSETS).read_bytes() == before
    assert verify_files(LocalFolder(topic)).whole


def test_a_run_that_is_killed_leaves_files_that_are_whole(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "backup").mkdir()
    points = CrashPoints(tmp_path / "backup" / "orders", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        topic = back_up(tmp_path / "backup", run(0, 2))
        points.states.clear()
        for billing in (12, 15):
            group_history.update(LocalFolder(topic), {0: {"billing": billing}})
    seen = set()
    for before, path in points.materialized(tmp_path / "left"):
        assert verify_files(LocalFolder(path)).whole, before
        seen.add(offsets(path).get("billing"))
        group_history.update(LocalFolder(path), {0: {"billing": 15, "late": 1}})
        assert read_offsets(LocalFolder(path), 0)["late"] == 1, before
        assert verify_files(LocalFolder(path)).whole, before
    assert seen == {None, 12, 15}


def test_b17_a_group_whose_coordinator_is_away_keeps_its_offset_and_is_named(topic: Path) -> None:
    folder = LocalFolder(topic)
    assert group_history.update(folder, {0: {"audit": 20}}, read={"audit"}) == ("billing",)
    state = group_history.newest_state(folder)
    assert state is not None
    assert state.partitions == {0: {"audit": 20, "billing": 12}}
    assert state.not_read == ("billing",)
    assert group_history.update(folder, {0: {"audit": 20}}) == ()
    state = group_history.newest_state(folder)
    assert state is not None
    assert (state.partitions, state.not_read) == ({0: {"audit": 20}}, ())


def test_b31_a_group_that_was_deleted_before_the_last_run_does_not_come_back(topic: Path) -> None:
    folder = LocalFolder(topic)
    group_history.update(folder, {0: {"audit": 20}})
    assert offsets(topic) == {"audit": 20}
    assert group_history.gone(folder, [0]) == ["billing"]
    held = read_held(folder, "orders")
    (left_out,) = lacking(held, held.partitions, None)
    assert "billing" in left_out
    assert lacking(held, held.partitions, max(group_history.states(folder))) == ()


def test_groups_of_a_partition_that_was_not_read_keep_their_offsets(topic: Path) -> None:
    folder = LocalFolder(topic)
    assert group_history.update(folder, {1: {"billing": 7}}) == ("audit", "billing")
    state = group_history.newest_state(folder)
    assert state is not None
    assert state.partitions == {0: {"billing": 12, "audit": 20}, 1: {"billing": 7}}


def test_a_state_of_an_older_release_is_compared_with_its_file(topic: Path) -> None:
    for file in of_groups(topic):
        file.unlink()
    manifest = manifest_of(topic)
    as_before = replace(manifest, commit=manifest.commit + 1, groups=None)
    write_manifest(LocalFolder(topic), as_before)
    state = topic / f"breakglass_groups_{FIRST}.json"
    state.write_text('{"schema": 1, "at_ms": 1, "partitions": {"0": {"billing": 3}}}\n')
    (topic / OFFSETS).write_bytes(b'{"billing":3,"older":1}')
    assert verify_files(LocalFolder(topic)).whole
    assert offsets(topic) == {"billing": 3, "older": 1}
    (topic / OFFSETS).write_bytes(b'{"billing":2,"older":1}')
    assert not verify_files(LocalFolder(topic)).whole


def test_b25_coordinators_that_were_not_read_are_named_until_a_run_reads_them(
    tmp_path: Path,
) -> None:
    topic = back_up(tmp_path / "backup", run(0, 20))
    folder, away = LocalFolder(topic), ("groups of __consumer_offsets-1: it is offline",)
    held = HeldTopic("orders", 1, open_store(str(tmp_path / "backup")))
    for _ in range(2):
        group_history.update(folder, {0: {}}, read=(), unread=away)
        assert len(group_history.states(folder)) == 1
        found = verify_files(folder)
        assert (found.whole, found.as_committed) == (False, True)
        for said in (found.groups_lacking, topic_status(held).groups_lacking):
            assert away[0] in "".join(said)
        (lack,) = lacking(held_now := read_held(folder, "orders"), held_now.partitions, None)
        assert away[0] in lack
    group_history.update(folder, {0: {"billing": 3}}, read={"billing"}, hidden=("needs",))
    assert not verify_files(folder).whole
    group_history.update(folder, {0: {"billing": 3}})
    assert verify_files(folder).whole
    assert not topic_status(held).groups_lacking


@pytest.mark.parametrize("harm", ["removed", "emptied", "older", "of another backup"])
@pytest.mark.parametrize("at_ms", [FIRST, SECOND])
def test_b26_a_state_that_is_gone_or_replaced_is_never_whole_and_the_advice_helps(
    topic: Path, tmp_path: Path, harm: str, at_ms: int
) -> None:
    folder = LocalFolder(topic)
    file = topic / f"breakglass_groups_{at_ms}.json"
    other = LocalFolder(back_up(tmp_path / "other", run(0, 20)))
    group_history.update(other, {0: {"billing": 1, "audit": 2}}, at_ms)
    foreign = (other.path / file.name).read_bytes()
    first = (topic / f"breakglass_groups_{FIRST}.json").read_bytes()
    match harm:
        case "removed":
            file.unlink()
        case "emptied":
            file.write_bytes(b"")
        case "older" if at_ms == SECOND:
            file.write_bytes(first)
        case _:
            file.write_bytes(foreign)
    (topic / f"breakglass_groups_{SECOND + 5}.json").write_bytes(first)
    assert [damage.file for damage in verify_files(folder).damages] == [str(file)]
    held = read_held(folder, "orders")
    with pytest.raises(MalformedInput, match=file.name):
        groups_of(held, held.partitions, at_ms)
    well = {FIRST: 3, SECOND: 12}[FIRST + SECOND - at_ms]
    assert groups_of(held, held.partitions, FIRST + SECOND - at_ms)[0]["billing"] == well
    copy = mend(folder, "renamed", tmp_path / "mended").folder
    assert verify_files(copy).whole == (at_ms == FIRST)
    assert group_history.moment(at_ms) in verify_files(copy).groups_lost[0]

    file.unlink(missing_ok=True)
    group_history.update(folder, {0: {"billing": 12, "audit": 20}})
    found = verify_files(folder)
    assert (found.whole, group_history.moment(at_ms) in found.groups_lost[0]) == (True, True)
    assert offsets(topic) == {"billing": 12, "audit": 20}
    with pytest.raises(MalformedInput, match="lost"):
        groups_of(read_held(folder, "orders"), held.partitions, at_ms)


def test_a_file_of_offsets_is_written_again_by_the_next_run_once_it_is_removed_from_any_store(
    tmp_path: Path,
) -> None:
    folder = RunsFolder(LocalBlobs(tmp_path / "orders"))
    with assembling(folder, ORDERS, 2**30) as topic:
        topic.commit()
    group_history.update(folder, {0: {"billing": 3}})
    folder.remove(OFFSETS)
    group_history.update(folder, {0: {"billing": 3}})
    assert group_history.newest_offsets(folder, [0]) == {0: {"billing": 3}}


def test_a_mended_copy_has_no_offsets_that_were_changed(topic: Path, tmp_path: Path) -> None:
    before = (topic / OFFSETS).read_bytes()
    (topic / OFFSETS).write_bytes(before.replace(b"12", b"13"))
    overwrite(topic / f"breakglass_groups_{FIRST}.json", 0, b"[")
    mend(LocalFolder(topic), "orders", tmp_path / "mended")
    copy = tmp_path / "mended" / "orders"
    assert offsets(copy) == {"billing": 12, "audit": 20}
    assert group_history.times(LocalFolder(copy).names())[0] == SECOND
    assert verify_files(LocalFolder(copy)).whole
