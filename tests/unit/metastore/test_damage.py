"""Every reader of a metastore backup x every damage to its files: none says that it is whole."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from breakglass.console.metastore import app
from breakglass.services.errors import BreakglassError
from breakglass.services.metastore.restore.source import Skips, read_source
from breakglass.services.metastore.side_file import SUFFIX
from tests.unit.damage import emptied, removed, swapped
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import NAMED, back_up

RECORDS = Generator(11).records(60, gaps=True)
OTHERS = Generator(12).records(60, gaps=True)


def replaced(path: Path, _: Path) -> None:
    path.write_bytes(bytes(byte ^ 1 for byte in path.read_bytes()))


def one_byte_changed(path: Path, _: Path) -> None:
    """A letter in a statement, so that the line still is a command."""
    content = path.read_bytes()
    at = content.rindex(b"CREATE") + 1 if b"CREATE" in content else len(content) // 2
    path.write_bytes(content[:at] + b"r" + content[at + 1 :])


def cut(path: Path, _: Path) -> None:
    path.write_bytes(path.read_bytes()[:-1])


def cut_at_a_line(path: Path, _: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


EVERY = (removed, emptied, replaced, one_byte_changed, cut, cut_at_a_line, swapped)
by_damage = pytest.mark.parametrize("damage", EVERY, ids=lambda one: one.__name__)


def whole_by_verify(file: Path) -> bool:
    result = CliRunner().invoke(app, ["verify", str(file)])
    return result.exit_code == 0 and "no chain to check" not in result.stderr


def whole_by_restore(file: Path) -> bool:
    try:
        return len(read_source(file, Skips(terminate_cluster=True)).commands) > 0
    except BreakglassError:
        return False


def whole_by_compact(file: Path) -> bool:
    try:
        return len(read_source(file, Skips(), only_read=True).commands) > 0
    except BreakglassError:
        return False


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A backup, and another one."""
    for name, records in (("one", RECORDS), ("other", OTHERS)):
        (tmp_path / name).mkdir()
        back_up(tmp_path / name, records, group=20)
    return tmp_path / "one" / NAMED, tmp_path / "other" / NAMED


READERS = (whole_by_verify, whole_by_restore, whole_by_compact)
by_reader = pytest.mark.parametrize("whole_by", READERS, ids=lambda one: one.__name__)


@by_reader
def test_an_undamaged_backup_is_whole(
    files: tuple[Path, Path], whole_by: Callable[[Path], bool]
) -> None:
    assert whole_by(files[0])


@by_reader
@by_damage
def test_no_reader_takes_damaged_lines_for_whole(
    files: tuple[Path, Path],
    damage: Callable[[Path, Path], None],
    whole_by: Callable[[Path], bool],
) -> None:
    damage(*files)
    assert not whole_by(files[0])


@pytest.mark.parametrize("whole_by", [whole_by_verify, whole_by_restore])
@by_damage
def test_a_damaged_side_file_is_said_and_not_restored_from(
    files: tuple[Path, Path],
    damage: Callable[[Path, Path], None],
    whole_by: Callable[[Path], bool],
) -> None:
    side, other = (file.with_name(file.name + SUFFIX) for file in files)
    damage(side, other)
    if damage in (cut, cut_at_a_line) and whole_by is whole_by_verify:
        # Its last line may be one that is being written: told, and no damage to the commands.
        assert "not in the side file" in CliRunner().invoke(app, ["verify", str(files[0])]).stderr
        return
    assert not whole_by(files[0])
