"""A restored topic under the offsets of its backup: by what the restore noted of each stretch."""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.divergence.align import Comparison, PairKind
from breakglass.services.divergence.entry import Item, UnreadableRange
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.divergence.views import RestoredView
from breakglass.services.topic_backup.record import TimestampType
from tests.unit.divergence.streams import ListSource, entry

READING = Reading()


@dataclass(frozen=True)
class Noted:
    """As a restore's `CommittedRun`."""

    first_offset: int
    next_offset: int
    new_offset: int
    count: int


OLD = [entry(offset, epoch=None) for offset in (3, 4, 8, 9, 20, 21)]
STRETCHES = (Noted(3, 9, 100, 3), Noted(9, 22, 110, 3))


def restored(**changes: Item) -> list[Item]:
    """The topic: somebody else wrote at 105."""
    news = (100, 101, 102, 110, 111, 112)
    found: dict[int, Item] = {
        new: old._replace(offset=new, epoch=2) for new, old in zip(news, OLD, strict=True)
    }
    found[105] = entry(105, b"of somebody else")
    for name, item in changes.items():
        found[int(name[1:])] = item
    return [found[at] for at in sorted(found)]


def told(topic: list[Item], start: int = 0, end: int = 99) -> list[tuple[int, str]]:
    backup = ListSource(OLD)
    view = RestoredView(ListSource(topic), backup, STRETCHES)
    assert view.extent == Extent(3, 22)
    pairs = Comparison(backup, view).pairs(start, end, READING)
    return [(pair.offset, pair.kind.value) for pair in pairs]


def test_every_record_stands_under_its_old_offset() -> None:
    same = [(offset, "=") for offset in (3, 4, 8, 9, 20, 21)]
    assert told(restored()) == same
    assert told(restored(), 4, 21) == same[1:-1]


def test_what_is_missing_or_different_is_found_at_its_old_offset() -> None:
    changed = entry(4, b"other")._replace(offset=101)
    without = [one for one in restored(n101=changed) if getattr(one, "offset", 0) != 111]
    assert told(without) == [(3, "="), (4, "!"), (8, "="), (9, "="), (20, "<"), (21, "=")]


def test_what_the_topic_cannot_read_is_told_where_it_belongs() -> None:
    found = told(restored(n101=UnreadableRange(101, 103, "its CRC differs.")))
    assert found == [(3, "="), (4, "?"), (8, "?"), (9, "="), (20, "="), (21, "=")]


def test_a_timestamp_that_was_set_on_append_is_no_difference() -> None:
    old = OLD[0]._replace(timestamp_type=TimestampType.LOG_APPEND)
    backup = ListSource([old])
    topic = ListSource([OLD[0]._replace(offset=100)])
    view = RestoredView(topic, backup, (Noted(3, 4, 100, 1),))
    (pair,) = Comparison(backup, view).pairs(0, 9, READING)
    assert pair.kind is PairKind.EQUAL
