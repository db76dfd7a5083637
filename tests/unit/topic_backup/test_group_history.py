"""Offsets of groups beside a backup: what was changed is seen, what was not read is not lost."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.errors import BreakglassError
from breakglass.services.topic_backup import consumer_offsets, group_history
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import consumer_offsets_name
from breakglass.services.topic_backup.mending import mend
from breakglass.services.topic_backup.verification import verify_files
from tests.unit.topic_backup.backups import back_up, overwrite
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
        for bit in range(8 * len(before)):
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
        assert consumer_offsets.read(LocalFolder(path), 0)["late"] == 1, before
        assert verify_files(LocalFolder(path)).whole, before
    assert seen == {None, 12, 15}


def test_b17_a_group_whose_coordinator_is_away_keeps_its_offset_and_is_named(topic: Path) -> None:
    folder = LocalFolder(topic)
    assert group_history.update(folder, {0: {"audit": 20}}, read={"audit"}) == ("billing",)
    state = group_history.newest_state(folder, folder.names())
    assert state is not None
    assert state.partitions == {0: {"audit": 20, "billing": 12}}
    assert state.not_read == ("billing",)
    assert group_history.update(folder, {0: {"audit": 20}}) == ()
    state = group_history.newest_state(folder, folder.names())
    assert state is not None
    assert (state.partitions, state.not_read) == ({0: {"audit": 20}}, ())


def test_groups_of_a_partition_that_was_not_read_keep_their_offsets(topic: Path) -> None:
    folder = LocalFolder(topic)
    assert group_history.update(folder, {1: {"billing": 7}}) == ("audit", "billing")
    state = group_history.newest_state(folder, folder.names())
    assert state is not None
    assert state.partitions == {0: {"billing": 12, "audit": 20}, 1: {"billing": 7}}


def test_a_state_of_an_older_release_is_compared_with_its_file(topic: Path) -> None:
    for file in of_groups(topic):
        file.unlink()
    state = topic / f"breakglass_groups_{FIRST}.json"
    state.write_text('{"schema": 1, "at_ms": 1, "partitions": {"0": {"billing": 3}}}\n')
    (topic / OFFSETS).write_bytes(b'{"billing":3,"older":1}')
    assert verify_files(LocalFolder(topic)).whole
    assert offsets(topic) == {"billing": 3, "older": 1}
    (topic / OFFSETS).write_bytes(b'{"billing":2,"older":1}')
    assert not verify_files(LocalFolder(topic)).whole


def test_a_mended_copy_has_no_offsets_that_were_changed(topic: Path, tmp_path: Path) -> None:
    before = (topic / OFFSETS).read_bytes()
    (topic / OFFSETS).write_bytes(before.replace(b"12", b"13"))
    overwrite(topic / f"breakglass_groups_{FIRST}.json", 0, b"[")
    mend(LocalFolder(topic), "orders", tmp_path / "mended")
    copy = tmp_path / "mended" / "orders"
    assert offsets(copy) == {"billing": 12, "audit": 20}
    assert group_history.times(LocalFolder(copy).names())[0] == SECOND
    assert verify_files(LocalFolder(copy)).whole
