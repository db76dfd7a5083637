"""The list of offline partitions as it is looked at: filtered, sorted, grouped, some opened. Pure.

Takes a tenth of a second for 100,000 rows: screens make one in a thread. What is narrowed down to
some of its groups, as by most filters, takes no time.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import cached_property

from breakglass.services.incident.cells import Listed
from breakglass.services.incident.filters import RowFilter
from breakglass.services.incident.groups import GroupKey, PartitionGroup, grouped
from breakglass.services.incident.order import RowOrder, ordered
from breakglass.services.incident.row import IncidentRow, row_partition
from breakglass.services.model import TopicPartition

ALL = RowFilter()


@dataclass(frozen=True, slots=True)
class ListingView:
    """How the list is looked at."""

    filter: RowFilter = ALL
    order: RowOrder = RowOrder.URGENCY


@dataclass(frozen=True)
class Listing:
    """Groups, and the lines that are to be seen of them."""

    groups: tuple[PartitionGroup, ...] = ()
    opened: frozenset[GroupKey] = frozenset()
    """Groups whose partitions are listed below them, be they there or not."""

    @cached_property
    def lines(self) -> tuple[Listed, ...]:
        """A line for each group, and for each partition that is alone or in an opened group."""
        lines: list[Listed] = []
        for group in self.groups:
            if len(group.rows) > 1:
                lines.append(group)
            if len(group.rows) == 1 or group.key in self.opened:
                lines.extend(group.rows)
        return tuple(lines)

    @cached_property
    def kept(self) -> int:
        """How many partitions the filter keeps."""
        return sum(len(one.rows) for one in self.groups)

    @cached_property
    def by_key(self) -> dict[GroupKey, PartitionGroup]:
        """The groups by verdict, action and topic."""
        return {one.key: one for one in self.groups}

    def with_opened(self, key: GroupKey, opened: bool) -> Listing:
        """The same with one group opened or closed."""
        keys = self.opened | {key} if opened else self.opened - {key}
        return replace(self, opened=keys)


def listing(
    rows: Sequence[IncidentRow],
    view: ListingView,
    opened: frozenset[GroupKey] = frozenset(),
    keep: TopicPartition | None = None,
) -> Listing:
    """List *rows* as *view* wants them; the group of the partition to *keep* is opened for it."""
    kept = [one for one in rows if view.filter.keeps(one)] if view.filter else rows
    groups = tuple(grouped(ordered(kept, view.order)))
    return Listing(groups, _opened_for(keep, groups, opened))


def narrowed(
    whole: Listing,
    view: ListingView,
    opened: frozenset[GroupKey] = frozenset(),
    keep: TopicPartition | None = None,
) -> Listing | None:
    """What `listing` makes of all rows, found in *whole*, which lists them as `ListingView()` does.

    None if that takes a look at each row. By topic it does not: each group has its rows in the
    order of their partitions already.
    """
    if view.order not in (RowOrder.URGENCY, RowOrder.TOPIC) or not view.filter.alike:
        return None
    groups = [group for group in whole.groups if view.filter.keeps(group.rows[0])]
    if view.order is RowOrder.TOPIC:
        groups.sort(key=lambda group: row_partition(group.rows[0]))
    return Listing(tuple(groups), _opened_for(keep, groups, opened))


def group_key(row: IncidentRow) -> GroupKey:
    """The key of the group that *row* is in."""
    return row.verdict, row.action, row.partition.topic


def _opened_for(
    keep: TopicPartition | None, groups: Sequence[PartitionGroup], opened: frozenset[GroupKey]
) -> frozenset[GroupKey]:
    """*opened*, and the group of the partition to *keep*."""
    if keep is None:
        return opened
    return opened | {one.key for one in groups if _holds(one, keep)}


def _holds(group: PartitionGroup, partition: TopicPartition) -> bool:
    if group.topic != partition.topic:
        return False
    # Partitions are compared by their numbers alone: a group may have 50,000.
    wanted = partition.partition
    return any(row.state.partition.partition == wanted for row in group.rows)
