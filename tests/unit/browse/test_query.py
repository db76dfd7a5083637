"""What records are searched for: every condition, and what cannot be read says why."""

from __future__ import annotations

import pytest

from breakglass.services.browse.finding import WHOLE
from breakglass.services.browse.query import parse_query, parse_time
from breakglass.services.divergence.entry import RecordEntry, content_of, headers_of
from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.record import TimestampType
from tests.unit.divergence.streams import entry

VALUE = b'{"user": {"id": 17, "names": ["Ann", "B"]}, "ok": true, "note": "card declined"}'
RECORD = RecordEntry(
    1_200,
    None,
    TimestampType.CREATE,
    1_769_860_800_000,
    content_of(b"u-17", 2**31),
    content_of(VALUE, 2**31),
    headers_of(((b"trace", b"abc"), (b"trace", None)), WHOLE),
)


@pytest.mark.parametrize(
    "text",
    [
        "declined",
        "u-17",
        "key:-17",
        "key=u-17",
        '"value:card declined"',
        "header:trace",
        "header:trace=abc",
        "json:user.id=17",
        "json:$.user.names[1]=B",
        "json:user.names[0]",
        "json:ok=true",
        "offset:1,200",
        "time:2026-01-31T12:00",
        "time:2026-01-31T13:00+01:00",
        "time:1769860800000",
        "-key:x declined",
        "-header:other",
    ],
)
def test_a_record_is_found_by(text: str) -> None:
    assert parse_query(text).fits(RECORD)


@pytest.mark.parametrize(
    "text",
    [
        "nowhere",
        "key=u-1",
        "value:u-17",
        "header:trace=x",
        "header:other",
        "json:user.id=18",
        "json:user.names[2]",
        "json:user[0]",
        "json:note.x",
        "offset:1201",
        "time:2026-01-31T12:00:01",
        "-declined",
        "declined nowhere",
    ],
)
def test_a_record_is_not_found_by(text: str) -> None:
    assert not parse_query(text).fits(RECORD)


def test_nulls_and_what_is_no_json_fit_nothing() -> None:
    empty = entry(3, None)._replace(key=None, timestamp=None)
    for text in ("x", "key:x", "key=x", "value:x", "json:a", "header:x", "time:0"):
        assert not parse_query(text).fits(empty)
    assert not parse_query("json:a").fits(entry(3, b"[" * 200_000))


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ("", "nothing to search for"),
        ('"open', "close the quotes"),
        ("offset:x", "no offset"),
        ("time:yesterday", "is no time"),
        ("json:=3", "is no path"),
        ("json:a[x", "is no path"),
    ],
)
def test_what_is_no_query_says_why(text: str, why: str) -> None:
    with pytest.raises(UsageError, match=why):
        parse_query(text)


def test_a_time_is_utc_unless_it_says_otherwise() -> None:
    assert parse_time("1970-01-01T00:00:01") == 1_000
    assert parse_time("1970-01-01T01:00:01+01:00") == 1_000
    assert parse_time("1500") == 1_500
