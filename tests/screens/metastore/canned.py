"""A canned ksqlDB service, and consoles that look at it."""

import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from io import BytesIO
from pathlib import Path
from typing import Any
from unittest.mock import patch

from textual.pilot import Pilot

from breakglass.console.app import BreakglassApp
from breakglass.services.metastore.glance import NewestBackup, ServiceLook
from breakglass.services.metastore.lines import CommandRecord, counted, pairs, read_lines
from breakglass.services.metastore.log.reader import AppliedCommand, Replay
from tests.kit.incidents import incident_of, online_partition
from tests.screens.canned_access import CannedAccess
from tests.screens.consoles import console_on
from tests.screens.drawing import at_rest, stopped_clock
from tests.screens.turns import shows

TOPIC = "_confluent-ksql-default__command_topic"
FILE = Path("/backups") / f"{TOPIC}_1593540976.bak"
BEGAN_MS = 1_593_540_976_000
STATEMENTS = (
    (
        "stream/`PAGEVIEWS`/create",
        "CREATE STREAM PAGEVIEWS (USERID STRING KEY, PAGEID STRING) "
        "WITH (KAFKA_TOPIC='pageviews', VALUE_FORMAT='JSON');",
    ),
    (
        "table/`USERS`/create",
        "CREATE TABLE USERS (USERID STRING PRIMARY KEY, REGION STRING) "
        "WITH (KAFKA_TOPIC='users', VALUE_FORMAT='AVRO');",
    ),
    ("type/ADDRESS/create", "CREATE TYPE ADDRESS AS STRUCT<CITY STRING, ZIP STRING>;"),
    (
        "stream/`ENRICHED`/create",
        "CREATE STREAM ENRICHED AS SELECT P.USERID, U.REGION FROM PAGEVIEWS P "
        "LEFT JOIN USERS U ON P.USERID = U.USERID;",
    ),
    (
        "table/`BY_REGION`/create",
        "CREATE TABLE BY_REGION AS SELECT REGION, COUNT(*) AS VIEWS FROM ENRICHED GROUP BY REGION;",
    ),
    ("pause/CTAS_BY_REGION_7/execute", "PAUSE CTAS_BY_REGION_7;"),
    (
        "stream/`ENRICHED`/create",
        "INSERT INTO ENRICHED SELECT P.USERID, 'none' AS REGION FROM PAGEVIEWS P;",
    ),
    (
        "stream/`old:clicks`/create",
        "CREATE STREAM `old:clicks` (ID INT KEY) WITH (KAFKA_TOPIC='clicks', VALUE_FORMAT='JSON');",
    ),
)


def shop() -> list[CommandRecord]:
    """The commands of a small service, as its topic has them."""
    return [
        CommandRecord(
            2 * number,
            json.dumps(key).encode(),
            json.dumps({"statement": statement, "version": 18}).encode(),
            BEGAN_MS + 61_000 * number,
        )
        for number, (key, statement) in enumerate(STATEMENTS)
    ]


def look_of(
    topic: Sequence[CommandRecord], stored: Sequence[CommandRecord] | None = None, **changes: Any
) -> ServiceLook:
    entries: list[AppliedCommand] = []
    replay = Replay(entries.append)
    for record in topic:
        replay.take(record)
    raw = b"".join([record.line for record in (topic if stored is None else stored)])
    lines = tuple(read_lines(BytesIO(raw)))
    found = tuple(pairs(topic, lines))
    whole: dict[str, Any] = {
        "topic": TOPIC,
        "metastore": replay.metastore,
        "entries": tuple(entries),
        "degraded": replay.degraded,
        "wrong": {},
        "alarms": (),
        "backup": NewestBackup(FILE, lines, counted(found)),
        "pairs": found,
    }
    return ServiceLook(**(whole | changes))


def accident() -> ServiceLook:
    """retention.ms=0 was set, a source's topic is gone, and somebody changed a command."""
    there = shop()
    changed = (there[3].value or b"").replace(b"LEFT JOIN", b"JOIN")
    stored = [*there[:3], there[3]._replace(value=changed), *there[4:7]]
    return look_of(
        there,
        stored,
        alarms=(f"topic {TOPIC} has retention.ms=0 (topic), which removes commands: set it to -1",),
        wrong={"old:clicks": "its topic clicks does not exist"},
    )


def console_seeing(**named: Any) -> BreakglassApp:
    """A console on the screen, whose service looks as `watch_that` is patched in to tell."""
    incident = incident_of(online=[online_partition(TOPIC, 0)])
    access = CannedAccess().as_access
    return console_on(incident, access=access, start="metastore", **named)


def watch_that(look: Callable[[], ServiceLook]) -> type:
    class Watch:
        def __init__(self, *_: object) -> None:
            pass

        def look(self, _: object) -> ServiceLook:
            return look()

        def close(self) -> None:
            pass

    return Watch


@asynccontextmanager
async def at_view(
    look: Callable[[], ServiceLook],
    keys: Sequence[str],
    words: str,
    size: tuple[int, int] = (80, 24),
    theme: str = "breakglass-dark",
) -> AsyncIterator[Pilot[None]]:
    with patch("breakglass.screens.metastore.ServiceWatch", watch_that(look)):
        console = console_seeing(theme=theme, clock=stopped_clock)
        async with console.run_test(size=size) as pilot:
            await shows(pilot, "Backup")
            await shows(pilot, "commands")
            await pilot.press(*keys)
            await shows(pilot, words)
            await at_rest(pilot)
            yield pilot
