"""Rule M12: a line is split behind its whole key, and what is wrong with one is told, not fatal."""

import io

import pytest

from breakglass.services.metastore.lines import BackupLine, LineProblem, read_lines, split
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
