"""The list of offline partitions: filtered, sorted, grouped, opened, marked.

The cursor stays on its partition, whatever comes, goes or changes places around it.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from functools import partial
from typing import ClassVar, NamedTuple, cast

from textual.binding import Binding, BindingType
from textual.geometry import Size
from textual.message import Message
from textual.widget import Widget
from typing_extensions import override

from breakglass.screens.refreshing import in_thread
from breakglass.screens.widgets.line_table import LineColumn, LineTable
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.listing import (
    Listing,
    ListingView,
    RowOrder,
    group_key,
    listing,
    narrowed,
    relisted,
)
from breakglass.services.incident.row import (
    GroupKey,
    IncidentRow,
    Listed,
    PartitionGroup,
    action_text,
    best_text,
    epoch_text,
    heard_text,
    log_end_text,
    loses_text,
    name_text,
    unread_text,
    verdict_text,
)
from breakglass.services.model import TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Verdict
from breakglass.services.same_ends import differing
from breakglass.themes.roles import Role, Words

Numbers = frozenset[int] | range
"""Partitions of one topic; a range where all of a group are, for that takes no time."""


class Marks:
    """Partitions the operator has marked: by topic, for there may be 100,000.

    Holds the key of a partition that is marked, and of a group all of whose partitions are.
    """

    def __init__(self) -> None:
        self._numbers: dict[str, Numbers] = {}
        self._groups: Mapping[GroupKey, PartitionGroup] = {}
        """What is listed, by key."""
        self._members: dict[object, Numbers] = {}
        """Of groups that were looked at: taking 50,000 numbers off their rows can be felt."""
        self._whole: dict[object, bool] = {}
        """Groups that were looked at since anything was marked."""

    def __len__(self) -> int:
        return sum(map(len, self._numbers.values()))

    def __contains__(self, key: object) -> bool:
        if isinstance(key, TopicPartition):
            return key.partition in self._numbers.get(key.topic, ())
        group = self._groups.get(cast("GroupKey", key))
        if group is None or group.topic not in self._numbers:
            return False
        if key not in self._whole:
            self._whole[key] = self._marked(group)
        return self._whole[key]

    @property
    def partitions(self) -> tuple[TopicPartition, ...]:
        held = sorted(self._numbers.items())
        return tuple(
            [TopicPartition(topic, number) for topic, numbers in held for number in sorted(numbers)]
        )

    def show(self, groups: Mapping[GroupKey, PartitionGroup]) -> None:
        self._groups = groups
        self._members.clear()
        self._whole.clear()

    def toggle(self, lines: Sequence[Listed]) -> None:
        """Mark what all *lines* stand for; where all of it is marked, nothing."""
        marked = all(self._marked(line) for line in lines)
        for line in lines:
            held, numbers = self._held(line), self._numbers_of(line)
            both = frozenset(held) | frozenset(numbers) if held else numbers
            self._numbers[topic_of(line)] = _without(held, numbers) if marked else both
        self._whole.clear()

    def keep(self, before: Sequence[IncidentRow], rows: Sequence[IncidentRow]) -> None:
        """*rows* are offline in place of those *before*: what is no longer is forgotten."""
        if not len(self):
            return
        was, now = differing(before, rows)
        then, here = self._of_topics(before[was]), self._of_topics(rows[now])
        for topic, numbers in then.items():
            gone = frozenset(numbers - here.get(topic, set()))
            self._numbers[topic] = _without(self._numbers[topic], gone)
        self._whole.clear()

    def _of_topics(self, rows: Iterable[IncidentRow]) -> dict[str, set[int]]:
        found: dict[str, set[int]] = {}
        for row in rows:
            partition = row.state.partition
            if partition.topic in self._numbers:
                found.setdefault(partition.topic, set()).add(partition.partition)
        return found

    def clear(self) -> None:
        self._numbers.clear()
        self._whole.clear()

    def _marked(self, line: Listed) -> bool:
        held = self._held(line)
        if isinstance(line, PartitionGroup) and len(held) < len(line.rows):
            # Most groups are drawn while none, or few, of their partitions are marked.
            return False
        numbers = self._numbers_of(line)
        return numbers == held or frozenset(numbers) <= frozenset(held)

    def _held(self, line: Listed) -> Numbers:
        return self._numbers.get(topic_of(line), frozenset())

    def _numbers_of(self, line: Listed) -> Numbers:
        if not isinstance(line, PartitionGroup):
            return frozenset((line.partition.partition,))
        if line.span is not None:
            return line.span
        found = self._members.get(line.key)
        if found is None:
            found = frozenset([row.state.partition.partition for row in line.rows])
            self._members[line.key] = found
        return found


def _without(held: Numbers, numbers: Numbers) -> Numbers:
    if not numbers:
        return held
    return frozenset() if held == numbers else frozenset(held) - frozenset(numbers)


def topic_of(line: Listed) -> str:
    """The topic of what a line stands for."""
    return line.topic if isinstance(line, PartitionGroup) else line.partition.topic


def line_key(line: Listed) -> Hashable:
    """What a line is found again by."""
    return line.key if isinstance(line, PartitionGroup) else line.state.partition


def rows_of(line: Listed | None) -> Sequence[IncidentRow]:
    """What a line stands for."""
    if line is None:
        return ()
    return line.rows if isinstance(line, PartitionGroup) else (line,)


class WholeListing(NamedTuple):
    """All rows of an incident, listed by urgency."""

    rows: Sequence[IncidentRow]
    listing: Listing


VERDICT_ROLES = {
    Verdict.BOMB: Role.BOMB,
    Verdict.FORK: Role.FORK,
    Verdict.LOSS: Role.LOST,
    Verdict.STUCK: Role.STUCK,
    Verdict.WAIT: Role.WAITING,
    Verdict.SAFE: Role.SAFE,
}
LONGEST_NAME = 80
WORD = max(len(verdict.value) for verdict in Verdict)


def columns(opened: Callable[[Listed], bool | None]) -> tuple[LineColumn[Listed], ...]:
    """The columns; *opened* says of a group whether it is, of one of its partitions None."""

    def verdict(line: Listed) -> Words:
        shown = f"{verdict_text(line):<{WORD}} {action_text(line)}"
        return Words(shown, Role.MUTED if line.verdict is None else VERDICT_ROLES[line.verdict])

    def name(line: Listed) -> Words:
        shown = name_text(line)
        if isinstance(line, PartitionGroup):
            return Words(("▾" if opened(line) else "▸") + shown)
        return Words(("   " if opened(line) is None else " ") + shown)

    return (
        LineColumn("Verdict", verdict),
        LineColumn(" Topic-partition", name, most=LONGEST_NAME, shrinks=True, tail="-"),
        LineColumn("Best", _best, least_width=50),
        LineColumn(
            "LEO",
            lambda line: _figure(log_end_text(line)),
            right=True,
            least_width=70,
            yields=2,
        ),
        LineColumn(
            "Epoch",
            lambda line: _figure(epoch_text(line)),
            right=True,
            least_width=78,
            yields=1,
        ),
        LineColumn("Loses", _loses, right=True),
        LineColumn("Unread", _unread, right=True, least_width=66),
        LineColumn("Heard", _heard, least_width=72),
    )


def _best(line: Listed) -> Words:
    return Words(best_text(line), None if line.designee is None else Role.DESIGNEE)


def _loses(line: Listed) -> Words:
    text = loses_text(line)
    value = line.loss.at_least if isinstance(line, PartitionGroup) else line.loss
    if isinstance(value, Unknown):
        return Words(text, Role.UNKNOWN)
    return Words(text, Role.LOST if value else None)


def _unread(line: Listed) -> Words:
    text = unread_text(line)
    return Words(text, None if text in ("0", "-") else Role.UNKNOWN)


def _heard(line: Listed) -> Words:
    heard = line.heard
    all_heard = heard is not None and heard[0] == heard[1]
    return Words(heard_text(line), None if all_heard else Role.UNKNOWN)


def _figure(text: str) -> Words:
    return Words(text, Role.UNKNOWN if text == "?" else None)


def _make(
    incident: Incident,
    view: ListingView,
    opened: frozenset[GroupKey],
    keep: TopicPartition | None,
    before: WholeListing | None,
) -> tuple[Listing, WholeListing]:
    """In a thread."""
    rows = incident.rows
    if before is None:
        whole = listing(rows, ListingView(), opened)
    elif before.rows is rows:
        whole = before.listing
    else:
        whole = relisted(before.listing, before.rows, rows)
    made = narrowed(whole, view, opened, keep) or listing(rows, view, opened, keep)
    _ = whole.lines, whole.by_key, whole.kept, whole.of_topics, whole.of_conclusions
    _ = made.lines, made.by_key, made.kept
    return made, WholeListing(rows, whole)


SHARE = 60
"""Percent of the room that a long list takes where the replicas stand below it."""
LEAST_LINES = 4
AT_ONCE = 2_000
"""Rows that are listed where the key was pressed; more take a thread."""


def _share(room: int) -> int:
    return max(room * SHARE // 100, LEAST_LINES)


class PartitionList(LineTable[Listed]):
    """Lines of `Listed`, made of an incident as `view` wants them."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "space",
            "mark",
            "Mark",
            show=False,
            tooltip="Mark the line under the cursor, or unmark it",
        ),
        Binding(
            "asterisk",
            "mark_all",
            "Mark all",
            key_display="*",
            show=False,
            tooltip="Mark all that match the filter, or unmark them",
        ),
        Binding("u", "unmark_all", "Unmark all", show=False),
        Binding("s", "sort(1)", "Sort", show=False, tooltip="Sort by the next figure"),
        Binding("S", "sort(-1)", "Sort back", show=False, tooltip="Sort by the previous figure"),
        Binding("right", "open(True)", "Open group", show=False),
        Binding("left", "open(False)", "Close group", show=False),
    ]

    class Changed(Message):
        """What is listed, or marked, or how, is not what it was."""

    def __init__(self, *, id: str | None = None) -> None:
        super().__init__(columns(self._opened), line_key, id=id)
        self.view = ListingView()
        self.listing = Listing()
        self._whole: WholeListing | None = None
        """What most filters narrow down, and what is listed again where rows have changed."""
        self.marks = Marks()
        self._incident: Incident | None = None
        self._generation = 0
        self._making = False
        """A thread lists."""
        self._then: list[Callable[[], None]] = []
        self._kept_room: int | None = None
        """Lines of the room that it keeps whatever is listed."""
        self._wanted: Hashable = None
        """Where the cursor belongs, and returns to when it is listed again: the first line until
        all is judged, from then on wherever the operator leaves it."""

    def show(self, incident: Incident) -> None:
        """List the rows of *incident*; nothing moves where they are the same."""
        before, self._incident = self._incident, incident
        if before is None or incident.rows is not before.rows:
            self.marks.keep(() if before is None else before.rows, incident.rows)
            self._list()

    def look(self, view: ListingView) -> None:
        if view != self.view:
            self.view = view
            self._list()

    def keep_room(self, *, keep: bool) -> None:
        """Take no other room from what is below: it would move at every letter of a filter."""
        self._kept_room = self.virtual_size.height if keep else None
        if not keep:
            self.refresh(layout=True)

    @property
    @override
    def most_lines(self) -> int:
        room = cast("Widget", self.parent).size.height
        return _share(room) if self.styles.auto_dimensions else room

    @override
    def get_content_height(self, container: Size, viewport: Size, width: int) -> int:
        """A short list leaves its room to the replicas below it."""
        lines = self.virtual_size.height if self._kept_room is None else self._kept_room
        return min(max(lines, LEAST_LINES), _share(container.height))

    def when_listed(self, then: Callable[[], None]) -> None:
        """Call *then* once the list is what was asked for: acts on all of it are not on another."""
        self._then.append(then)
        self._go_on()

    @property
    def targets(self) -> tuple[TopicPartition, ...]:
        """What is acted on: what is marked, else what the cursor is on."""
        held = self.marks.partitions
        return held or tuple([row.partition for row in rows_of(self.current)])

    @property
    def partition(self) -> TopicPartition | None:
        """The partition the cursor is on; the first one of a group."""
        first = next(iter(rows_of(self.current)), None)
        return None if first is None else first.partition

    def rows_of_interest(self) -> list[IncidentRow]:
        """The rows of what is marked, else of all that the filter keeps."""
        if len(self.marks) and self._incident is not None:
            return [row for row in self._incident.rows if row.partition in self.marks]
        return [row for group in self.listing.groups for row in group.rows]

    def action_choose(self) -> None:
        """Enter: open or close a group; a partition is `Chosen`."""
        line = self.current
        if isinstance(line, PartitionGroup):
            self.action_open(line.key not in self.listing.opened)
        else:
            super().action_choose()

    def action_open(self, opened: bool) -> None:
        line = self.current
        if line is None:
            return
        key = line.key if isinstance(line, PartitionGroup) else group_key(line)
        group = self.listing.by_key.get(key)
        if group is None or len(group.rows) == 1 or (key in self.listing.opened) == opened:
            return
        self._generation += 1  # The list that a thread makes at the same time lacks this change.
        self._put_listing(self.listing.with_opened(key, opened))
        if not opened:
            self.move_to(key)

    def action_mark(self) -> None:
        if self.current is not None:
            self.marks.toggle([self.current])
            self._draw_marks()
            self.action_move(1)

    def action_mark_all(self) -> None:
        self.when_listed(self._mark_all)

    def _mark_all(self) -> None:
        self.marks.toggle(self.listing.groups)
        self._draw_marks()

    def action_unmark_all(self) -> None:
        self.marks.clear()
        self._draw_marks()

    def action_sort(self, by: int) -> None:
        orders = list(RowOrder)
        place = orders.index(self.view.order) + by
        self.look(ListingView(self.view.filter, orders[place % len(orders)]))

    def _listing_made(self, generation: int, made: tuple[Listing, WholeListing]) -> None:
        self._making = False
        listing, self._whole = made
        if generation == self._generation:
            self._put_listing(listing)
        else:
            self._list()
        self._go_on()

    def _go_on(self) -> None:
        while self._then and not self._making:
            self._then.pop(0)()

    def _list(self) -> None:
        """List again: at once where that takes no time, else in a thread, one at a time."""
        incident = self._incident
        if incident is None:
            return
        self._generation += 1
        made = self._narrowed(incident)
        if made is not None:
            self._put_listing(made)
        elif len(incident.rows) <= AT_ONCE:
            self._put_listing(listing(incident.rows, self.view, self.listing.opened, self._keep))
        elif not self._making:
            self._making = True
            opened, whole = self.listing.opened, self._whole
            make = partial(_make, incident, self.view, opened, self._keep, whole)
            in_thread(self, "listing", make, partial(self._listing_made, self._generation))

    def _narrowed(self, incident: Incident) -> Listing | None:
        """The list as it is wanted, if it is a part of the whole one and found without delay."""
        if self._whole is None or self._whole.rows is not incident.rows:
            return None
        listing = self._whole.listing
        if self.view.order is not RowOrder.URGENCY and len(listing.groups) > AT_ONCE:
            return None
        return narrowed(listing, self.view, self.listing.opened, self._keep)

    @property
    def _keep(self) -> TopicPartition | None:
        """The partition that the operator went to: it must not go out of sight."""
        return self._wanted if isinstance(self._wanted, TopicPartition) else None

    def _put_listing(self, made: Listing) -> None:
        self.listing = made
        self.marks.show(made.by_key)
        self.set_rows(made.lines, marked=self.marks)
        self._put_back()
        self.post_message(self.Changed())

    def _put_back(self) -> None:
        if self._wanted is not None:
            if self.current is not None and line_key(self.current) != self._wanted:
                self.move_to(self._wanted)
            return
        super()._put(0)
        if self._incident is not None and self._incident.judged == len(self._incident.rows):
            self._pin()

    @override
    def find(self, key: Hashable) -> int | None:
        """Looks at no line's key: it is known which value has *key* while the list is current."""
        if self._making or self._incident is None:
            return super().find(key)
        if isinstance(key, TopicPartition):
            return self.find_same(self._incident.row(key))
        return self.find_same(self.listing.by_key.get(cast("GroupKey", key)))

    @override
    def _put(self, number: int) -> None:
        super()._put(number)
        self._pin()

    def _pin(self) -> None:
        if self.current is not None:
            self._wanted = line_key(self.current)

    def _draw_marks(self) -> None:
        self.set_marked(self.marks)
        self.post_message(self.Changed())

    def _opened(self, line: Listed) -> bool | None:
        """Whether a group is opened; None for a partition that is listed below its group."""
        if isinstance(line, PartitionGroup):
            return line.key in self.listing.opened
        return None if self.listing.spread and group_key(line) in self.listing.spread else False
