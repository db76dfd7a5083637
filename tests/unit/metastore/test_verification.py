"""Tampering and bit rot are found by the chain, and every line is checked as restore would."""

from __future__ import annotations

import random
from pathlib import Path

import pytest

from breakglass.services.metastore.lines import Finding
from breakglass.services.metastore.verification import verify_backup
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import NAMED, ODD, back_up, content

RECORDS = Generator(11).records(300, gaps=True)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """A whole backup."""
    back_up(tmp_path, RECORDS, group=50)
    return tmp_path / NAMED


def test_a_whole_backup_is_whole(file: Path) -> None:
    verified = verify_backup(file)
    assert verified.whole
    assert verified.commands == verified.noted == 300
    assert verified.bytes == len(content(RECORDS))
    assert (verified.changed, verified.missing, verified.unnoted_bytes) == ([], 0, 0)
    assert {finding.finding for finding in verified.findings} == {Finding.UNREADABLE_BY_KSQLDB}


def test_the_digest_tells_whether_anything_was_changed(file: Path, tmp_path: Path) -> None:
    digest = verify_backup(file).digest
    assert len(digest) == 64
    assert verify_backup(file).digest == digest
    back_up(tmp_path, [*RECORDS, RECORDS[0]._replace(offset=10_000)])
    assert verify_backup(file).digest != digest


def test_every_flipped_bit_is_found_in_its_line(file: Path) -> None:
    whole = file.read_bytes()
    picked = random.Random(3)
    for _ in range(60):
        at = picked.randrange(len(whole))
        if whole[at] == 0x0A:
            continue
        damaged = bytearray(whole)
        damaged[at] ^= 1 << picked.randrange(8)
        if damaged[at] == 0x0A:
            continue
        file.write_bytes(damaged)
        line = whole.count(b"\n", 0, at) + 1
        assert verify_backup(file).changed == [line], at


def test_a_line_taken_out_is_found(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join(lines[:100] + lines[101:]))
    verified = verify_backup(file)
    assert not verified.whole
    assert verified.changed[0] == 101


def test_a_line_put_in_is_found(file: Path) -> None:
    lines = file.read_bytes().splitlines(keepends=True)
    file.write_bytes(b"".join([*lines[:100], lines[5], *lines[100:]]))
    verified = verify_backup(file)
    assert not verified.whole
    assert verified.changed[0] == 101


def test_lost_lines_at_the_end_are_counted(file: Path) -> None:
    file.write_bytes(content(RECORDS[:290]))
    verified = verify_backup(file)
    assert not verified.whole
    assert verified.missing == 10


def test_lines_that_nothing_was_noted_of_are_told_and_no_damage(file: Path) -> None:
    extra = RECORDS[1].line
    with file.open("ab") as out:
        out.write(extra)
    verified = verify_backup(file)
    assert verified.whole
    assert verified.unnoted_bytes == len(extra)


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


@pytest.mark.parametrize("field", [b'"s":[', b'"k":[', b'"x":[', b'"o":['])
def test_no_change_of_a_group_is_blamed_on_another(file: Path, field: bytes) -> None:
    side = file.with_name(file.name + ".side")
    lines = side.read_bytes().splitlines(keepends=True)
    lines[2] = lines[2].replace(field, field + b"1")
    side.write_bytes(b"".join(lines))
    changed = verify_backup(file).changed
    assert changed
    assert all(51 <= number <= 101 for number in changed)


def test_a_backup_without_a_side_file_is_read_all_the_same(file: Path) -> None:
    file.with_name(file.name + ".side").unlink()
    verified = verify_backup(file)
    assert verified.whole
    assert verified.commands == 300
    assert "check the path" in verified.side


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
    messages = [str(finding) for finding in verified.findings]
    assert messages[1].startswith('Invalid CommandId string (line 3): "river/A/drop" (')
    assert messages[2].startswith('Incompatible Command string (line 4): "type/A/drop" (')
    assert not verified.whole


def test_odd_commands_are_told_and_unchanged(tmp_path: Path) -> None:
    back_up(tmp_path, ODD)
    verified = verify_backup(tmp_path / NAMED)
    assert verified.changed == []
    assert verified.findings
