"""Rule M12: a line is split behind its whole key, and what is wrong with one is told, not fatal."""

import io

import pytest

from breakglass.services.metastore import command, lines
from breakglass.services.metastore.lines import (
    BackupLine,
    Finding,
    LineProblem,
    checked,
    read_lines,
    split,
)
from tests.unit.metastore.generating import HARD, Generator


def lines_of(content: bytes) -> list[BackupLine]:
    return list(read_lines(io.BytesIO(content)))


def test_m12_every_generated_command_is_split_where_it_was_joined() -> None:
    records = Generator(2).records(800)
    hard = sum(b":" in (record.key or b"") for record in records)
    assert hard > 30
    read = lines_of(b"".join(record.line for record in records))
    assert [(line.key, line.value) for line in read] == [
        (record.key, record.value) for record in records
    ]
    assert all(line.problem is None for line in read)
    assert [line.number for line in read] == list(range(1, len(records) + 1))


@pytest.mark.parametrize("name", HARD)
def test_m12_a_hard_name_is_split_right(name: str) -> None:
    escaped = name.replace("\\", "\\\\").replace('"', '\\"').replace("\t", "\\t")
    key = f'"stream/`{escaped}`/create"'.encode()
    assert split(key + b':{"statement":"a:b"}') == (key, b'{"statement":"a:b"}')


class CountingFile(io.BytesIO):
    """Remembers how much was read at once."""

    most = 0

    def readline(self, size: int | None = -1) -> bytes:
        line = super().readline(-1 if size is None else size)
        self.most = max(self.most, len(line))
        return line


def test_s54_a_line_that_no_topic_can_have_is_named_and_never_kept(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(lines, "MOST_LINE", 1_000)
    monkeypatch.setattr(lines, "PIECE", 700)
    good = b'"type/A/drop":{"statement":"DROP TYPE A;"}\n'
    begun, nulls = b'"type/A/drop":{"statement":"', b"\0" * 100_000
    file = CountingFile(good + nulls + b"\n" + good + begun + nulls + b"\n" + good + nulls)
    found = list(read_lines(file))
    problem = LineProblem.TOO_LONG
    assert [line.problem for line in found] == [None, problem, None, problem, None, problem]
    assert [line.number for line in found] == [1, 2, 3, 4, 5, 6]
    assert [line.start for line in found[1:]] == [line.end for line in found[:-1]]
    assert found[-1].end == len(file.getvalue())
    assert file.most <= 1_001
    (_, told, *_) = [finding.message for line in checked(iter(found)) for finding in line.findings]
    assert "100,029 bytes" in told
    assert len(told) < 300


def test_s54_a_line_has_no_more_values_than_fit_in_memory(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(command, "MOST_VALUES", 1_000)
    line = b'"stream/A/create":{"statement":"%b","x":[%b]}'
    text, many = b"a" * 1_000, b",".join([b"[]"] * 500)
    (few,) = checked(iter(lines_of(line % (text, b"[]") + b"\n")))
    (found,) = checked(iter(lines_of(line % (text, many) + b"\n")))
    assert [one.findings[0].finding for one in (few, found)] == [
        Finding.INCOMPATIBLE,
        Finding.INVALID,
    ]


WIDE = 300_000


@pytest.mark.parametrize(
    "line",
    [
        b'"stream/A/create":' + b"[" * WIDE,
        b'"stream/A/create":{"' + b"a" * WIDE + b'":1}',
        b'"stream/A/create":{"statement":"x","version":' + b"9" * 4_000 + b"}",
        b'"' + b"z" * WIDE + b'/A/create":{}',
        b"9" * WIDE + b":{}",
    ],
    ids=["brackets", "field", "version", "type", "key"],
)
def test_s54_of_an_invalid_line_the_beginning_is_shown(line: bytes) -> None:
    (found,) = checked(iter(lines_of(line + b"\n")))
    (finding,) = found.findings
    assert len(finding.message) < 300


def test_blank_torn_and_null_lines_are_told_with_their_numbers() -> None:
    good = b'"type/A/drop":{"statement":"DROP TYPE A;"}\n'
    content = (
        good
        + b"\n"
        + b"   \r\n"
        + b'"type/A/dr\n'
        + b'"type/A/drop"\n'
        + b'"type/A/drop":\n'
        + b'"type/A/drop":null\n'
        + b':{"statement":"x"}\n'
        + b'null:{"statement":"x"}\n'
        + good
        + b'"type/B/drop":{"statement":\n"x"\n'
        + b'"type/A/drop":{"statem'
    )
    assert [(line.number, line.problem) for line in lines_of(content)] == [
        (1, None),
        (2, LineProblem.BLANK),
        (3, LineProblem.BLANK),
        (4, LineProblem.TORN),
        (5, LineProblem.TORN),
        (6, LineProblem.NULL_VALUE),
        (7, LineProblem.NULL_VALUE),
        (8, LineProblem.NULL_KEY),
        (9, LineProblem.NULL_KEY),
        (10, None),
        (11, None),
        (12, LineProblem.TORN),
        (13, LineProblem.TORN),
    ]
