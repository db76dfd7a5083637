"""Tampering and bit rot are found by the chain, and every line is checked as restore would."""

import json
import random
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from breakglass.console.metastore import app
from breakglass.services.errors import BreakglassError, MalformedInput
from breakglass.services.metastore.lines import CommandRecord, Finding
from breakglass.services.metastore.restore.plan import Skips, read_source
from breakglass.services.metastore.settings import lock_file, locked
from breakglass.services.metastore.side_file import SUFFIX, verify_backup
from tests.unit.damage import cut, emptied, removed, replaced, swapped
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import NAMED, TOPIC, back_up, content

RECORDS = Generator(11).records(300, gaps=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A whole backup."""
    back_up(tmp_path, RECORDS, group=50)
    return tmp_path / NAMED


def test_every_flipped_bit_is_found_in_its_line(file: Path) -> None:
    whole, picked = file.read_bytes(), random.Random(3)
    for at in picked.sample([at for at, byte in enumerate(whole) if byte != 0x0A], 12):
        damaged = bytearray(whole)
        damaged[at] ^= 0x80
        file.write_bytes(damaged)
        assert verify_backup(file).changed == [whole.count(b"\n", 0, at) + 1], at


@pytest.mark.parametrize(
    ("left", "first", "missing"),
    [
        pytest.param([*RECORDS[:100], *RECORDS[101:]], [101], 2, id="a line was taken out"),
        pytest.param([*RECORDS[:100], RECORDS[5], *RECORDS[100:]], [101], 0, id="one was put in"),
        pytest.param(RECORDS[:290], [], 10, id="lines at the end are lost"),
    ],
)
def test_lines_that_are_not_those_noted_are_found(
    file: Path, left: list[CommandRecord], first: list[int], missing: int
) -> None:
    file.write_bytes(content(left))
    verified = verify_backup(file)
    assert verified.whole is False
    assert (verified.changed[:1], verified.missing) == (first, missing)


def verified_as(file: Path) -> tuple[int, object]:
    """The exit code of `verify`, and what it says of the whole."""
    done = CliRunner().invoke(app, ["verify", str(file), "--json"])
    whole = json.loads(done.stdout)["whole"]
    return done.exit_code, "unknown" if isinstance(whole, dict) else whole


def test_m17_a_command_that_the_side_file_has_not_is_a_difference(file: Path) -> None:
    with file.open("ab") as out:
        out.write(RECORDS[1].line)
    assert verify_backup(file).unnoted_bytes == len(RECORDS[1].line)
    assert verified_as(file) == (1, False)
    with locked(lock_file(file.parent, TOPIC)):
        assert verified_as(file) == (4, "unknown"), "the backup that runs notes its lines later"
        assert len(read_source(file, Skips(), only_read=True).commands) == 301
    for way in ({"as_ksqldb": True}, {"compact": True}, {"only_read": True}):
        with pytest.raises(MalformedInput, match="not in its side file"):
            read_source(file, Skips(), **way)


def test_m17_without_a_side_file_a_part_of_a_backup_is_not_called_whole(file: Path) -> None:
    file.write_bytes(content(RECORDS[:150]))
    assert verified_as(file) == (1, False)
    file.with_name(file.name + SUFFIX).unlink()
    assert verified_as(file) == (4, "unknown")
    assert "whole" not in CliRunner().invoke(app, ["verify", str(file)]).output
    assert verify_backup(file).commands == 150
    assert len(read_source(file, Skips(), compact=True).commands) == 150


def converted(file: Path) -> None:
    """Let the file have the line ends of Windows, and no side file, as a mail or an editor does."""
    file.write_bytes(file.read_bytes().replace(b"\n", b"\r\n"))
    file.with_name(file.name + SUFFIX).unlink()


def cut_to_nothing(file: Path) -> None:
    file.write_bytes(b"")
    file.with_name(file.name + SUFFIX).unlink()


@pytest.mark.parametrize("damage", [converted, cut_to_nothing])
def test_m16_what_is_empty_or_has_other_line_ends_is_not_whole(
    file: Path, damage: Callable[[Path], None]
) -> None:
    damage(file)
    assert verify_backup(file).whole is False
    assert CliRunner().invoke(app, ["verify", str(file)]).exit_code == 1


def test_m16_values_of_other_line_ends_are_not_restored(file: Path) -> None:
    converted(file)
    with pytest.raises(BreakglassError, match="line 1 holds a carriage return"):
        read_source(file, Skips(), compact=True)


def test_a_carriage_return_that_the_side_file_proves_belongs_to_its_command(tmp_path: Path) -> None:
    odd = RECORDS[0]._replace(value=(RECORDS[0].value or b"") + b"\r")
    back_up(tmp_path, [odd, *RECORDS[1:]])
    assert verify_backup(tmp_path / NAMED).whole is True
    assert read_source(tmp_path / NAMED, Skips()).records[0].value == odd.value


@pytest.mark.parametrize(("group", "line"), [(0, 0), (1, 1), (4, 151), (6, 251)])
def test_a_changed_side_file_is_found_by_the_first_line_of_its_group(
    file: Path, group: int, line: int
) -> None:
    side = file.with_name(file.name + ".side")
    lines = side.read_bytes().splitlines(keepends=True)
    lines[group] = (
        lines[group].replace(b'"t":[', b'"t":[1').replace(b'"topic_id":"', b'"topic_id":"x')
    )
    side.write_bytes(b"".join(lines))
    assert verify_backup(file).changed == [line]


def test_what_is_wrong_is_told_by_line_as_ksqldb_tells_it(tmp_path: Path) -> None:
    file = tmp_path / "x.bak"
    good = b'"type/A/drop":{"statement":"DROP TYPE A;"}\n'
    file.write_bytes(
        good
        + b"\n"
        + b'"river/A/drop":{"statement":"x"}\n'
        + b'"type/A/drop":{"statement":"x","version":19}\n'
        + b'"type/A/drop":{"other":1}\n'
        + b'"cluster/TerminateCluster/terminate":{"statement":"TERMINATE CLUSTER;"}\n'
        + b'"stream/`A/B`/create":{"statement":"x"}\n'
        + b'"type/A'
    )
    verified = verify_backup(file)
    assert [(finding.line, finding.finding) for finding in verified.findings] == [
        (2, Finding.BLANK),
        (3, Finding.INVALID_ID),
        (4, Finding.INCOMPATIBLE),
        (5, Finding.INCOMPATIBLE),
        (6, Finding.ENDS_CLUSTER),
        (7, Finding.UNREADABLE_BY_KSQLDB),
        (8, Finding.LINE),
    ]
    assert verified.whole is False


def producible(seed: int) -> list[CommandRecord]:
    """60 commands that `lines` prints."""
    records = Generator(seed).records(120, gaps=True)
    return [one for one in records if b":" not in (one.key or b"") and not one.problem][:60]


DAMAGED, ANOTHER = producible(11), producible(12)


def one_byte_changed(path: Path, _: Path) -> None:
    """A letter in a statement, so that the line still is a command."""
    content = path.read_bytes()
    at = content.rindex(b"CREATE") + 1 if b"CREATE" in content else len(content) // 2
    path.write_bytes(content[:at] + b"r" + content[at + 1 :])


def cut_at_a_line(path: Path, _: Path) -> None:
    path.write_bytes(b"".join(path.read_bytes().splitlines(keepends=True)[:-1]))


EVERY = (removed, emptied, replaced, one_byte_changed, cut, cut_at_a_line, swapped)
by_damage = pytest.mark.parametrize("damage", EVERY, ids=lambda one: one.__name__)


def whole_by_verify(file: Path) -> bool:
    return CliRunner().invoke(app, ["verify", str(file)]).exit_code == 0


def whole_by_lines(file: Path) -> bool:
    return CliRunner().invoke(app, ["show", str(file), "--lines"]).exit_code == 0


def whole_by(**way: bool) -> Callable[[Path], bool]:
    def whole(file: Path) -> bool:
        try:
            return len(read_source(file, Skips(terminate_cluster=True), **way).commands) > 0
        except BreakglassError:
            return False

    return whole


STRICT = {"verify": whole_by_verify, "restore": whole_by()}
READERS = STRICT | {
    "restore --compact-offsets": whole_by(compact=True),
    "ksql-restore-command-topic": whole_by(as_ksqldb=True),
    "compact": whole_by(only_read=True),
    "lines": whole_by_lines,
}


@pytest.fixture
def files(tmp_path: Path) -> tuple[Path, Path]:
    """A backup, and another one."""
    for name, records in (("one", DAMAGED), ("other", ANOTHER)):
        (tmp_path / name).mkdir()
        back_up(tmp_path / name, records, group=20)
    return tmp_path / "one" / NAMED, tmp_path / "other" / NAMED


@pytest.mark.parametrize("reader", READERS)
@by_damage
def test_no_reader_takes_damaged_lines_for_whole(
    files: tuple[Path, Path], damage: Callable[[Path, Path], None], reader: str
) -> None:
    assert READERS[reader](files[0])
    damage(*files)
    assert not READERS[reader](files[0])


@pytest.mark.parametrize("reader", READERS)
@by_damage
def test_m18_no_reader_takes_a_damaged_side_file_for_none(
    files: tuple[Path, Path], damage: Callable[[Path, Path], None], reader: str
) -> None:
    side, other = (file.with_name(file.name + SUFFIX) for file in files)
    damage(side, other)
    assert READERS[reader](files[0]) is (damage is removed and reader not in STRICT)


@pytest.mark.parametrize("reader", READERS)
@pytest.mark.parametrize(("groups", "left"), [(0, 0), (0, 3), (1, 3), (2, 20), (3, 40)])
def test_m18_a_part_beside_a_torn_side_file_is_no_backup_without_one(
    files: tuple[Path, Path], groups: int, left: int, reader: str
) -> None:
    """The side file is torn in the header (0) or in a group of 20, and the backup is cut."""
    file, side = files[0], files[0].with_name(files[0].name + SUFFIX)
    file.write_bytes(content(DAMAGED[:left]))
    side.write_bytes(b"".join(side.read_bytes().splitlines(keepends=True)[: groups + 1])[:-5])
    assert not READERS[reader](file)
