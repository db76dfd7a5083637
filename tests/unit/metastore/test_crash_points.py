"""A backup that ends at any operation on its files: no command is lost, none is there twice."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.services.metastore import appender
from breakglass.services.metastore.records import CommandRecord
from breakglass.services.metastore.settings import newest
from breakglass.services.metastore.side_reader import side_extent
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import ODD, TOPIC, back_up, content, stored
from tests.unit.topic_backup.crash_points import CrashPoints

GROUP = 3
PLAIN = Generator(7).records(9)
ELSE = Generator(8).records(8)
NEWLINES = [
    record._replace(value=(record.value or b"").replace(b",", b",\n"), offset=record.offset + 9)
    for record in Generator(9).records(5)
]


def watched(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *runs: list[CommandRecord]
) -> CrashPoints:
    """What can be left of backups of these topics, one after the other."""
    points = CrashPoints(tmp_path / "live", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        for records in runs:
            back_up(points.folder, records, group=GROUP)
    return points


def files(folder: Path) -> list[Path]:
    return [path for path in folder.iterdir() if path.suffix == ".bak"]


@pytest.mark.parametrize("overlapped", [1, 500])
@pytest.mark.parametrize(
    ("begin", "then"),
    [
        ([], PLAIN),
        (PLAIN[:4], PLAIN),
        (PLAIN[:4], [*PLAIN[:4], *NEWLINES]),
        (PLAIN, [*PLAIN[:5], *ELSE]),
        (list(ODD), [*ODD, *NEWLINES]),
    ],
    ids=["new", "appended", "raw newlines", "diverged", "odd"],
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
    points = watched(tmp_path, monkeypatch, begin, then)
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


def test_what_a_run_returned_from_is_there_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic may be gone by then: what was synced is all there is."""
    points = CrashPoints(tmp_path / "live", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        back_up(points.folder, PLAIN[:4], group=GROUP)
        points.states.clear()
        back_up(points.folder, PLAIN, group=GROUP)
    for before, folder in points.materialized(tmp_path / "left"):
        (file,) = files(folder)
        assert file.read_bytes().startswith(content(PLAIN[:4])), before
        back_up(folder, [])
        (file,) = files(folder)
        held = file.read_bytes()
        assert held.startswith(content(PLAIN[:4])), before
        assert any(held == content(PLAIN[:n]) for n in range(len(PLAIN) + 1)), before


def test_a_side_file_rebuilt_halfway_leaves_the_old_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    moved = [record._replace(offset=2 * record.offset) for record in PLAIN]
    points = CrashPoints(tmp_path / "live", tmp_path / "aside")
    with monkeypatch.context() as patched:
        points.watch(patched)
        back_up(points.folder, PLAIN, group=GROUP)
        points.states.clear()
        back_up(points.folder, moved, group=GROUP)
    for before, folder in points.materialized(tmp_path / "left"):
        (file,) = files(folder)
        extent = side_extent(folder / f"{file.name}.side")
        if extent is not None and extent.entries == len(PLAIN):
            assert stored(file) in (PLAIN, moved), before
        back_up(folder, moved)
        assert stored(file) == moved, before
