"""The backup file as the topic is replayed: continued, begun anew, mended, checked."""

import json
import os
import stat
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.errors import (
    AlreadyRunning,
    ConflictingRecord,
    MalformedInput,
    Refused,
    StorageError,
)
from breakglass.services.metastore import appender, live_backup
from breakglass.services.metastore.appender import Restart
from breakglass.services.metastore.events import Begun, Continued, Event, Flagged, Mended, Shorter
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.live_backup import (
    BackedUpTopic,
    LiveBackup,
    compact,
    open_backup,
    write_compacted,
)
from breakglass.services.metastore.log.reader import Replay
from breakglass.services.metastore.restore.plan import Skips, read_source
from breakglass.services.metastore.settings import Style, command_topic, newest
from breakglass.services.metastore.side_file import SideHeader, side_extent, stored_records
from tests.unit.metastore.generating import Generator
from tests.unit.topic_backup.crash_points import CrashPoints

TOPIC = command_topic("default_")
ORIGIN = BackedUpTopic(TOPIC, "topic-id-1", "cluster")
NAMED = f"{TOPIC}_1593540976.bak"
NOW_MS = 1_593_540_976_123
RECORDS = Generator(5).records(60, gaps=True)
"""A topic."""


def back_up(
    folder: Path,
    records: Sequence[CommandRecord],
    *,
    group: int = 7,
    origin: BackedUpTopic = ORIGIN,
    fail: bool = False,
    style: Style = Style.KLIP,
) -> list[Event]:
    """Replay *records* into the backup, as a run from the topic's beginning to its end."""
    events: list[Event] = []
    with open_backup(
        folder, origin, events.append, fail_on_difference=fail, style=style, now_ms=lambda: NOW_MS
    ) as backup:
        feed(backup, records, group)
        backup.reached_end()
    return events


def feed(backup: LiveBackup, records: Sequence[CommandRecord], group: int) -> None:
    for at in range(0, len(records), group):
        backup.take(records[at : at + group])


def stored(file: Path) -> list[CommandRecord]:
    side = file.with_name(file.name + ".side")
    with file.open("rb") as data, side.open("rb") as entries:
        return list(stored_records(data, entries, 10**9))


def content(records: Sequence[CommandRecord]) -> bytes:
    return b"".join(record.line for record in records)


@pytest.mark.parametrize(
    ("style", "name"), [(Style.KLIP, NAMED), (Style.SHIPPED, f"backup_{TOPIC}_{NOW_MS}")]
)
def test_a_first_backup_is_named_by_its_style_and_its_owners_alone(
    tmp_path: Path, style: Style, name: str
) -> None:
    folder = tmp_path / "deep" / "b"
    folder.mkdir(parents=True, mode=0o755)
    assert back_up(folder, [], style=style) == []
    assert list(folder.glob("*.bak")) == []
    assert back_up(folder, RECORDS, style=style) == [Begun(name)]
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    for path in folder.iterdir():
        assert stat.S_IMODE(path.stat().st_mode) == 0o600, path


@pytest.mark.parametrize("lost", [1, 40, 2_000, None], ids=["a bit", "more", "lines", "all"])
def test_what_a_side_file_lost_is_noted_again(tmp_path: Path, lost: int | None) -> None:
    """A kill may leave it behind its backup: with the end of a line missing, or with lines."""
    back_up(tmp_path, RECORDS)
    side = tmp_path / f"{NAMED}.side"
    side.write_bytes(b"noise" if lost is None else side.read_bytes()[:-lost])
    assert back_up(tmp_path, RECORDS, group=13)[-1] == Continued(NAMED, 60)
    assert stored(tmp_path / NAMED) == RECORDS


@pytest.mark.parametrize("since", [0, 30])
def test_offsets_are_ignored_and_noted_anew(tmp_path: Path, since: int) -> None:
    """A restored topic has the same commands elsewhere: the newest offsets are what counts."""
    back_up(tmp_path, RECORDS)
    restored = [
        one._replace(offset=one.offset + 1000 * (n >= since)) for n, one in enumerate(RECORDS)
    ]
    again = replace(ORIGIN, topic_id="topic-id-2")
    assert back_up(tmp_path, restored, origin=again) == [Continued(NAMED, 60)]
    assert (tmp_path / NAMED).read_bytes() == content(RECORDS)
    assert stored(tmp_path / NAMED) == restored
    extent = side_extent(tmp_path / f"{NAMED}.side")
    assert extent is not None
    assert extent.header.topic_id == "topic-id-2"


@pytest.mark.parametrize("at", [0, 1, 29, 59])
def test_a_different_command_begins_a_new_file_with_every_message(tmp_path: Path, at: int) -> None:
    back_up(tmp_path, RECORDS)
    other = Generator(6).records(80)
    topic = [*RECORDS[:at], *other]
    (begun,) = back_up(tmp_path, topic)
    assert isinstance(begun, Begun)
    assert begun.file == f"{TOPIC}_1593540977.bak"
    assert begun.before == NAMED
    assert begun.difference is not None
    assert (begun.difference.line, begun.difference.offset) == (at + 1, other[0].offset)
    extent = side_extent(tmp_path / f"{begun.file}.side")
    assert extent is not None
    assert (extent.header.diverged["before"], extent.header.diverged["line"]) == (NAMED, at + 1)
    assert (tmp_path / begun.file).read_bytes() == content(topic)
    assert stored(tmp_path / begun.file) == topic
    assert (tmp_path / NAMED).read_bytes() == content(RECORDS)
    assert stored(tmp_path / NAMED) == RECORDS


def test_a_difference_can_end_the_backup_as_ksqldb_does(tmp_path: Path) -> None:
    back_up(tmp_path, RECORDS)
    with pytest.raises(ConflictingRecord):
        back_up(tmp_path, RECORDS[1:], fail=True)
    assert [path.name for path in tmp_path.glob("*.bak")] == [NAMED]


@pytest.mark.parametrize("known", [0, 30])
def test_a_topic_that_ends_early_is_told_at_once(tmp_path: Path, known: int) -> None:
    back_up(tmp_path, RECORDS)
    assert back_up(tmp_path, RECORDS[:known]) == [Shorter(NAMED, known, 60 - known)]
    assert stored(tmp_path / NAMED) == RECORDS


@pytest.mark.parametrize("name", [f"{TOPIC}_5.bak", f"backup_{TOPIC}_5000"])
def test_a_file_of_ksqldb_is_continued(tmp_path: Path, name: str) -> None:
    """It has no side file: what its lines lack is noted from the topic."""
    (tmp_path / name).write_bytes(content(RECORDS[:40]))
    assert back_up(tmp_path, RECORDS) == [Continued(name, 40)]
    assert (tmp_path / name).read_bytes() == content(RECORDS)
    assert stored(tmp_path / name) == RECORDS


@pytest.mark.parametrize("left", [1, 20, -2])
def test_a_torn_tail_is_cut_and_written_again(tmp_path: Path, left: int) -> None:
    back_up(tmp_path, RECORDS[:40])
    with (tmp_path / NAMED).open("ab") as file:
        file.write(RECORDS[40].line[:left])
    mended, continued = back_up(tmp_path, RECORDS)
    assert isinstance(mended, Mended)
    assert continued == Continued(NAMED, 40)
    assert (tmp_path / NAMED).read_bytes() == content(RECORDS)


ODD = (
    CommandRecord(3, b'"type/A/drop"', b'{\n"statement":"x",\n"version":1\n}', 5),
    CommandRecord(4, b'"type/A/drop"', None, 6),
    CommandRecord(5, None, b"{}", 7),
    CommandRecord(6, b"", b"", None),
    CommandRecord(7, b"\xff:\x00", b"not\rjson", 8, (("a", b"\x00"), ("a", None))),
    CommandRecord(8, b'"torn', b"x", 9),
    CommandRecord(9, b'"type/A/drop"', b'{"statement":\n"torn"', 9),
)
"""Records that no server writes and anybody may."""


def test_commands_that_no_line_can_carry_are_kept_whole_and_flagged(tmp_path: Path) -> None:
    events = back_up(tmp_path, ODD)
    assert stored(tmp_path / NAMED) == list(ODD)
    flagged = [event.offset for event in events if isinstance(event, Flagged)]
    assert flagged == [3, 4, 5, 7, 9]
    assert back_up(tmp_path, ODD) == [Continued(NAMED, len(ODD))]


def test_one_backup_of_a_service_at_a_time(tmp_path: Path) -> None:
    with open_backup(tmp_path, ORIGIN, lambda _: None), pytest.raises(AlreadyRunning):
        back_up(tmp_path, RECORDS)
    other = replace(ORIGIN, topic=command_topic("other"))
    back_up(tmp_path, RECORDS)
    with open_backup(tmp_path, ORIGIN, lambda _: None):
        back_up(tmp_path, RECORDS, origin=other)


def test_another_program_that_writes_is_noticed(tmp_path: Path) -> None:
    with open_backup(tmp_path, ORIGIN, lambda _: None, now_ms=lambda: NOW_MS) as backup:
        backup.take(RECORDS[:10])
        copy = tmp_path / "dirty"
        copy.write_bytes((tmp_path / NAMED).read_bytes())
        copy.replace(tmp_path / NAMED)
        with pytest.raises(StorageError):
            backup.take(RECORDS[10:])
    assert (tmp_path / NAMED).read_bytes() == content(RECORDS[:10])


@pytest.mark.parametrize("fifo", [NAMED, f"{NAMED}.side"], ids=["backup", "side file"])
def test_a_fifo_in_place_of_a_file_keeps_no_run_waiting(tmp_path: Path, fifo: str) -> None:
    back_up(tmp_path, RECORDS)
    (tmp_path / fifo).unlink()
    os.mkfifo(tmp_path / fifo)
    header = SideHeader(TOPIC, "topic-id-1", "cluster", NOW_MS)
    with pytest.raises(StorageError):
        Restart(tmp_path / NAMED, tmp_path / f"{NAMED}.side", header, header)


GROUP = 3
PLAIN = Generator(7).records(9)
ELSE = Generator(8).records(8)
NEWLINES = [
    record._replace(value=(record.value or b"").replace(b",", b",\n"), offset=record.offset + 9)
    for record in Generator(9).records(5)
]


def files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix == ".bak"]


@pytest.mark.parametrize(
    ("begin", "then", "overlapped"),
    [
        ([], PLAIN, 500),
        (PLAIN[:4], PLAIN, 1),
        (PLAIN[:4], [*PLAIN[:4], *NEWLINES], 500),
        (PLAIN, [*PLAIN[:5], *ELSE], 1),
        (PLAIN, [record._replace(offset=2 * record.offset) for record in PLAIN], 500),
        (list(ODD), [*ODD, *NEWLINES], 500),
    ],
    ids=["new", "appended", "raw newlines", "diverged", "offsets anew", "odd"],
)
def test_a_run_that_ends_anywhere_is_made_good_by_the_next(
    begin: list[CommandRecord],
    then: list[CommandRecord],
    overlapped: int,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Also where a thread writes the lines while they are noted."""
    monkeypatch.setattr(appender, "OVERLAPPED", overlapped)
    monkeypatch.setattr(appender, "PART", 2)
    points = CrashPoints(tmp_path / "live", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        for records in (begin, then):
            back_up(points.folder, records, group=GROUP)
    assert len(points.states) > 10
    for before, folder in points.materialized(tmp_path / "left"):
        for file in files(folder):
            held = file.read_bytes()
            assert held == content(begin) or content(then).startswith(held) or (
                content(begin).startswith(held)
            ), before  # fmt: skip
        back_up(folder, then)
        last = newest([path.name for path in folder.iterdir()], TOPIC)
        assert last is not None
        assert (folder / str(last)).read_bytes() == content(then), before
        assert stored(folder / str(last)) == then, before
        assert len(files(folder)) <= 2, before
        assert not list(folder.glob("*.new")), before


def digest_of(records: tuple[CommandRecord, ...] | list[CommandRecord]) -> str:
    replay = Replay()
    assert all(map(replay.take, records))
    return replay.metastore.digest


@pytest.mark.parametrize("seed", range(2))
def test_what_is_left_becomes_the_same_metastore(seed: int) -> None:
    """An ended query keeps the stream that it made."""
    records = Generator(seed).records(300, gaps=True)
    told = compact(records)
    assert len(told.records) < len(records)
    assert digest_of(told.records) == digest_of(records) == told.digest
    by_offset = {record.offset: record for record in records}
    for record in told.records:
        same = by_offset[record.offset]
        assert (record.key, record.timestamp_ms) == (same.key, same.timestamp_ms)
        assert record.value == same.value or record.offset in told.stripped
        if record.offset in told.stripped:
            plan = json.loads(record.value or b"")["plan"]
            assert plan["queryPlan"] is None
            assert plan["ddlCommand"]["@type"].startswith("create")
    assert len(compact(told.records).records) <= len(told.records)


def test_nothing_is_left_out_of_what_cannot_be_replayed() -> None:
    bad = CommandRecord(99, b'"stream/`A`/create"', b'{"statement":"x","version":99}')
    with pytest.raises(MalformedInput, match="at offset 99"):
        compact([*Generator(1).records(5), bad])


def test_what_would_not_become_the_same_metastore_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = Generator(1).records(20)
    monkeypatch.setattr(live_backup, "_needless", lambda *_: range(len(records) - 1))
    with pytest.raises(StorageError):
        compact(records)


def test_a_compaction_that_ends_anywhere_leaves_nothing_or_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning of a smaller backup would be restored as if it were the whole."""
    records = Generator(4).records(40, gaps=True)
    back_up(tmp_path / "live", records)
    (file,) = (tmp_path / "live").glob("*.bak")
    held = file.read_bytes()
    source = read_source(file, Skips())
    told = compact(source.records)
    wanted, seen = tmp_path / "small", []

    def look() -> None:
        seen.append([read_source(path, Skips()).records for path in wanted.glob("*.bak")])

    def ended(call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            look()
            result = call(*given, **named)
            look()
            return result

        return watched

    with monkeypatch.context() as patched:
        for owner, name in ((os, "pwrite"), (os, "fsync"), (Path, "rename"), (Path, "replace")):
            patched.setattr(owner, name, ended(getattr(owner, name)))
        write_compacted(source, told, wanted)
    assert len(seen) > 10
    assert all(group in ([], [told.records]) for group in seen)
    assert seen[-1] == [told.records]
    assert file.read_bytes() == held
    with pytest.raises(Refused):
        write_compacted(source, told, wanted)
    file.with_name(file.name + ".side").unlink()
    with pytest.raises(Refused):
        write_compacted(read_source(file, Skips(), only_read=True), told, tmp_path / "other")
