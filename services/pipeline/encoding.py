"""Records as Kafka Backup writes them, encoded within the JVM: no record passes through Python.

A column expression over what Spark's Kafka source gives, equal byte for byte to
`topic_backup.record.encode`. Casting a whole number to its big-endian bytes needs ANSI mode to be
off while the expression is analysed; `offset` and timestamp are wide enough for it to be safe.

A record is one `concat` of all its pieces, since each one within another would copy the content
once more. It travels as text, which is never looked at as such: Arrow is given text from where it
lies, but binary from a copy.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

ANSI = "spark.sql.ansi.enabled"
UNROLLED_HEADERS = 4
"""So many headers are written out one by one, at half the cost of a fold over them."""

TIMESTAMP_MS = "unix_millis(timestamp)"


def int32(number: str) -> str:
    """SQL for the four bytes of the int *number*."""
    return f"cast(cast({number} as int) as binary)"


def int64(number: str) -> str:
    """SQL for the eight bytes of the long *number*."""
    return f"cast(cast({number} as bigint) as binary)"


def content(column: str) -> str:
    """SQL for a nullable binary *column* with its length before it: two pieces."""
    return f"{int32(f'coalesce(octet_length({column}), -1)')}, coalesce({column}, X'')"


def record() -> str:
    """SQL for a whole record."""
    # Spark shows "no timestamp" (-1, type -1) as the millisecond before the epoch.
    time = f"{int32('timestampType')}, if(timestampType = -1, X'', {int64(TIMESTAMP_MS)})"
    return f"concat({int64('offset')}, {time}, {content('key')}, {content('value')}, {_headers()})"


def _headers() -> str:
    cases = " ".join(
        f"when {count} then concat({int32(str(count))}, {_unrolled(count)})"
        for count in range(1, UNROLLED_HEADERS + 1)
    )
    folded = (
        f"aggregate(headers, {int32('size(headers)')}, "
        f"(bytes, header) -> concat(bytes, {_header('header')}))"
    )
    some = f"case size(headers) when 0 then X'00000000' {cases} else {folded} end"
    return f"if(headers is null, X'00000000', {some})"


def _unrolled(count: int) -> str:
    return ", ".join(_header(f"headers[{number}]") for number in range(count))


def _header(header: str) -> str:
    key = f"cast({header}.key as binary)"
    return f"{int32(f'octet_length({header}.key)')}, {key}, {content(f'{header}.value')}"


@contextmanager
def bytes_of_numbers(session: SparkSession) -> Iterator[None]:
    """Let numbers be cast to bytes by what is analysed within."""
    before = session.conf.get(ANSI) or "true"
    session.conf.set(ANSI, "false")
    try:
        yield
    finally:
        session.conf.set(ANSI, before)


def encoded(
    session: SparkSession, records: DataFrame, *further: str, most: int | None = None
) -> DataFrame:
    """*records* of the Kafka source as ``record``, text that is none, and *further* columns.

    A record of more bytes than *most* is empty, which no other is.
    """
    with bytes_of_numbers(session):
        found = records.selectExpr(f"{record()} as record", *further)
    # Named first, so that it is made once.
    small = "record" if most is None else f"if(octet_length(record) > {most}, X'', record)"
    return found.selectExpr(f"cast({small} as string) as record", *further)
