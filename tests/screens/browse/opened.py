"""Real backups for the screens that browse them.

What is drawn must not tell in which folder a test runs: those are reached by a relative path.
"""

import json
from collections.abc import Iterator, Sequence
from contextlib import chdir, contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any
from unittest.mock import patch

from textual.pilot import Pilot
from textual.widgets import Input

from breakglass.console.app import BreakglassApp
from breakglass.screens.browse.records import RecordsScreen
from breakglass.screens.browse.screen import BrowseScreen
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.messages import BrowseAsked
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.backup_watch.watch import BackupWatch
from breakglass.services.divergence.address import SourceAddress, parse_address
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import segment_prefix
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.notes import note_verified
from breakglass.services.topic_backup.store.blobs import Key
from tests.kit.incidents import nothing_offline
from tests.screens.consoles import console_on
from tests.screens.drawing import at_rest
from tests.screens.turns import until
from tests.unit.topic_backup.backups import as_the_originals, back_up

BEGAN_MS = 1_700_000_000_000
MINUTE = 60_000
SMALL = 12_000
"""A segment limit that cuts 400 orders into several."""


def order(offset: int, **changes: Any) -> Record:
    """A record as a shop has them, one each minute."""
    value = {"id": offset, "user": {"name": f"Ann {offset % 5}", "tags": ["new", "café"]}}
    plain = Record(
        offset,
        TimestampType.CREATE,
        BEGAN_MS + offset * MINUTE,
        b"user-%d" % (offset % 7),
        json.dumps(value, ensure_ascii=False).encode(),
        ((b"trace", b"t%d" % offset), (b"trace", None)),
    )
    return plain._replace(**changes)


def orders(start: int, end: int) -> list[Record]:
    return [order(offset) for offset in range(start, end)]


def a_place(root: Path) -> Path:
    """Backups of orders, of old (made by Kafka Backup) and of a topic that cannot be read."""
    topic = back_up(root, orders(0, 400), max_segment_bytes=SMALL)
    with patch("time.time_ns", lambda: (BEGAN_MS + 1_000 * MINUTE) * 1_000_000):
        note_verified(LocalFolder(topic), 1, "files", None, whole=True)
    as_the_originals(back_up(root, orders(0, 20), identity=TopicIdentity("old")))
    torn = back_up(root, orders(0, 3), identity=TopicIdentity("torn"))
    (torn / "breakglass_manifest.json").write_text("{")
    return root


def edited(root: Path) -> tuple[SourceAddress, SourceAddress]:
    """Two backups: the right one lacks 150, has other values at 100 and 101, and 10 more."""
    left = orders(0, 300)
    right = [
        order(record.offset, value=b'{"id": 1}') if record.offset in (100, 101) else record
        for record in left
        if record.offset != 150
    ]
    return pair(root, left, [*right, *orders(300, 310)])


def pair(
    root: Path, left: Sequence[Record], right: Sequence[Record]
) -> tuple[SourceAddress, SourceAddress]:
    one, other = back_up(root / "a", left), back_up(root / "b", right)
    return parse_address(f"backup:{one}/0"), parse_address(f"backup:{other}/0")


def browser(*places: Path | str, key: Key | None = None, **options: Any) -> BreakglassApp:
    console = console_on(nothing_offline(), **options)
    watch = BackupWatch(list(map(str, places)), key=key, jobs=lambda _: [])
    context = replace(console.context, backups=watch, key=key)
    return BreakglassApp(context, theme=console.theme, start="browse")


def records_of(console: Any) -> RecordsScreen:
    screen = console.screen
    assert isinstance(screen, RecordsScreen), screen
    return screen


async def shown(
    pilot: Pilot[Any], left: SourceAddress, right: SourceAddress | None = None
) -> RecordsScreen:
    pilot.app.post_message(BrowseAsked(left, right))
    await until(pilot, lambda: isinstance(pilot.app.screen, RecordsScreen), "the records")
    await idle(pilot)
    return records_of(pilot.app)


async def closed(pilot: Pilot[Any]) -> None:
    while len(pilot.app.screen_stack) > 1:
        await pilot.press("escape")


async def fill(pilot: Pilot[Any], key: str, words: str) -> None:
    await pilot.press(key)
    await until(pilot, lambda: isinstance(pilot.app.focused, Input), "the field")
    field = pilot.app.focused
    assert isinstance(field, Input)
    field.value = words
    await pilot.press("enter")


async def under(pilot: Pilot[Any], *key: str) -> None:
    screen = tree_of(pilot.app)
    table = screen.query_one("#tree", LineTable)
    for level in range(1, len(key) + 1):
        await until(pilot, partial(table.move_to, key[:level]), key[level - 1])
        if level < len(key):
            screen.action_open(True)


async def idle(pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: not getattr(pilot.app.screen, "busy", False), "the end of a task")
    await pilot.pause()


def at_offset(console: Any) -> int | None:
    current = console.screen.query_one(PairList).current
    return None if current is None else current.offset


async def to(pilot: Pilot[Any], offset: int) -> None:
    await until(pilot, lambda: at_offset(pilot.app) == offset, f"offset {offset}")
    await idle(pilot)


async def to_segments(pilot: Pilot[Any]) -> None:
    """The cursor on the second segment of orders, in a place called backups."""
    await under(pilot, "backups", "old", "0")
    await under(pilot, "backups", "orders", "0", segment_prefix(0, 0))
    await pilot.press("down")
    await at_rest(pilot)


async def to_records(pilot: Pilot[Any]) -> None:
    await shown(pilot, parse_address("backup:backups/orders/0"))
    await fill(pilot, "g", "90")
    await idle(pilot)
    await pilot.press("space", "space", "v")
    await fill(pilot, "slash", "json:id=99")
    await to(pilot, 99)
    await at_rest(pilot)


async def to_sides(pilot: Pilot[Any]) -> None:
    """The cursor on the first difference of the two in copies."""
    left, right = (parse_address(f"backup:copies/{one}/orders/0") for one in "ab")
    await shown(pilot, left, right)
    await pilot.press("n")
    await to(pilot, 100)
    await at_rest(pilot)


@contextmanager
def within(folder: str | Path) -> Iterator[None]:
    """Work in *folder*; while entered, places are shown as they were given."""
    with chdir(folder), patch("breakglass.services.backup_watch.watch.full_address", str):
        yield


def tree_of(console: Any) -> BrowseScreen:
    screen = console.screen_stack[0]
    assert isinstance(screen, BrowseScreen)
    return screen
