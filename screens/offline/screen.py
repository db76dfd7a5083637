"""The offline partitions: the list, and the replicas of what the cursor is on.

It comes first: what it opens is imported when it is opened.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.containers import Container
from textual.events import Resize
from textual.reactive import reactive
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.context import Context
from breakglass.screens.messages import CopyAsked, DiffAsked, ElectionAsked, GoneDeclared, PlanAsked
from breakglass.screens.offline.partition_list import PartitionList, line_key
from breakglass.screens.page import FilteredPage, FilterField
from breakglass.screens.widgets.line_table import LineTable
from breakglass.screens.widgets.replica_table import (
    Line,
    ReplicaTable,
    partition_lines,
    reason_lines,
)
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services.incident.filters import HELP, readable
from breakglass.services.incident.incident import Incident
from breakglass.services.incident.listing import ListingView, RowOrder
from breakglass.services.incident.row import (
    Listed,
    PartitionGroup,
    best_text,
    loses_text,
    name_text,
    unread_text,
)
from breakglass.services.recovery.judgement.summary import none_offline
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, Words, role_style

LONGEST_FILTER = 60
OLD_SECONDS = 60
"""Replicas are read again every half a minute, or less often where there are very many."""


class ListingLine(Widget):
    """One line, as much of it as fits."""

    DEFAULT_CSS = """
    ListingLine { height: 1; }
    """
    said: reactive[tuple[Words, ...]] = reactive(())

    def render(self) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis", end="")
        for piece in self.said:
            text.append("  " if text else " ")
            text.append(bounded(piece.text, 200), role_style(self.app, piece.role))
        return text


def panel_lines(
    incident: Incident, line: Listed | None, width: int, *, seen: str = ""
) -> list[Line]:
    """About a line of the list, in *width* cells; *seen* is when that was so, if not now (R41)."""
    if line is None:
        return []
    was: Line = (Words(f" So it was at {seen}; what is so by now is UNKNOWN.", Role.STALE),)
    begun = [was] if seen else []
    row = line.rows[0] if isinstance(line, PartitionGroup) else line
    if isinstance(line, PartitionGroup):
        told = "not read yet"
        if line.verdict is not None:
            told = f"best {best_text(line)}, loses {loses_text(line)}, unread "
            told += unread_text(line)
        name = Words(f" {name_text(line)}", Role.HEADING)
        listed = Words("  Enter lists them; the first is", Role.MUTED)
        begun.append((name, Words(f"  {told}"), listed))
    assessment = incident.assessment(row.partition)
    if assessment is not None:
        return [*begun, *partition_lines(assessment, width, gone_by="b")]
    state = row.state
    about = (
        f"leader epoch {state.leader_epoch}, assignment {','.join(map(str, state.assignment))}: "
        "its replicas have not been read yet"
    )
    heading: Line = (Words(f" {row.partition}", Role.HEADING),)
    return [*begun, heading, *reason_lines([about], width)]


WIDE = 160
"""Columns from which the replicas stand beside the list."""


class OfflineScreen(FilteredPage):
    """What is offline, grouped by what to do about it."""

    TITLE = "Offline partitions"
    ABOUT = (
        "Each line says what to do first: the verdict, the action, what the best choice loses. "
        "Keys act on the marked partitions; with no marks, on the line under the cursor. Filter "
        "by words in the name, or "
        f"{HELP}; -word excludes."
    )
    DEFAULT_CSS = """
    #both { height: 1fr; layout: vertical; }
    #both.wide { layout: horizontal; }
    #partitions { height: auto; }
    #replicas { height: 1fr; border-top: solid $border-blurred; }
    #both.wide > #partitions { height: 1fr; }
    #both.wide > #replicas {
        width: 46%; border-top: none; border-left: solid $border-blurred;
    }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "elect", "elect", tooltip="Elect what is marked, step by step"),
        Binding("p", "plan", "plan", tooltip="Make a plan of what is marked, or of all"),
        Binding("d", "diff", "diff", tooltip="Compare two replicas, record by record"),
        Binding(
            "r", "rescue", "rescue", tooltip="Save what an election would cut off; elect nobody"
        ),
        Binding("f", "forecast", "forecast", tooltip="What happens if nobody intervenes"),
        Binding("b", "gone", "gone", tooltip="Declare brokers whose disks are lost for good"),
        Binding(
            "R",
            "dead_broker",
            "Return",
            show=False,
            tooltip="What a dead broker would lose if it started, from its log folders",
        ),
        Binding(
            "h", "hold", "Freeze elections", show=False, tooltip="Keep the controller from electing"
        ),
        Binding(
            "F",
            "forget",
            "Forget last leaders",
            show=False,
            tooltip="Beside a BOMB that cannot be stopped: min.insync.replicas, for a moment",
        ),
        Binding("slash", "filter", "filter", key_display="/", tooltip="Filter the list"),
        Binding("y", "copy", "Copy names", show=False, tooltip="Copy the names of what is marked"),
        Binding("tab", "switch", "Other pane", show=False, tooltip="To the replicas and back"),
        Binding("escape", "back", "Clear filter", show=False),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._incident: Incident | None = None
        self._fault = ""
        """Why the filter that is being written cannot be read."""
        self._drawn: tuple[object, ...] = ()
        """What the panel shows."""
        self._drawn_key: Hashable = None
        self._folders = ""
        """Log folders of a dead broker, as they were given last."""

    def body(self) -> Iterator[Widget]:
        yield ListingLine()
        yield FilterField(HELP)
        with Container(id="both"):
            yield PartitionList(id="partitions")
            yield ReplicaTable(id="replicas")

    def on_mount(self) -> None:
        self._list.focus()

    def on_resize(self, event: Resize) -> None:
        self.query_one("#both").set_class(event.size.width >= WIDE, "wide")

    def show_known(self) -> None:
        incident = self.context.known.incident
        if incident is None:
            failed = bool(self.context.known.failure)
            self._list.set_empty("The cluster has not been read yet." if failed else "")
            return
        self._incident = incident
        seen = self.context.last_seen
        none = none_offline(incident.snapshot.quorum)
        nothing = f"Nothing was offline at {seen}." if seen else none
        if incident.rows:
            nothing = "No partition matches the filter."
        self._list.set_empty(nothing)
        self._list.show(incident)
        self._tell()
        self._draw_panel()

    def tick(self) -> None:
        if self.context.last_seen:
            self.show_known()

    def keep_only(self, wanted: str) -> None:
        """Filter by *wanted*, as if it had been written by hand."""
        self.filter_input.value = wanted
        self._filter(wanted)
        self._list.focus()

    @property
    def listed(self) -> Widget:
        return self._list

    @property
    def _list(self) -> PartitionList:
        return self.query_one(PartitionList)

    # The filter.

    @on(Input.Changed, "#filter")
    def _filter_written(self, message: Input.Changed) -> None:
        self._filter(message.value)

    def _filter(self, text: str) -> None:
        """Filter by as much of *text* as can be read."""
        wanted, fault = readable(text)
        self._fault = "" if fault is None else f"at {fault.position + 1}: {fault}"
        if wanted.text != self._list.view.filter.text:
            self._list.look(ListingView(wanted, self._list.view.order))
        self._tell()

    # What is acted on.

    def action_elect(self) -> None:
        targets = self._list.targets
        if targets:
            self.app.post_message(ElectionAsked(targets))

    def action_rescue(self) -> None:
        targets = self._list.targets
        if targets:
            from breakglass.screens.offline.rescue import RescueScreen

            self.app.push_screen(RescueScreen(self.context, targets))

    def action_plan(self) -> None:
        self._list.when_listed(self._plan)

    def _plan(self) -> None:
        marked, filtered = self._list.marks.partitions, bool(self._list.view.filter)
        kept = [row.partition for row in self._list.rows_of_interest()] if filtered else []
        if filtered and not kept:
            # A plan of nothing would be one of all.
            self.notify("No partition matches the filter: Esc clears it.", markup=False)
        else:
            self.app.post_message(PlanAsked(tuple(marked or kept)))

    def action_diff(self) -> None:
        partition = self._list.partition
        if partition is not None:
            self.app.post_message(DiffAsked(partition))

    def action_forecast(self) -> None:
        if self._incident is None:
            return
        rows = self._list.rows_of_interest()
        marked = " marked" if len(self._list.marks) else " that match the filter"
        which = marked if len(rows) < len(self._incident.rows) else ""
        what = f"{len(rows):,} offline partition{'s' * (len(rows) != 1)}{which}"
        from breakglass.screens.offline.partition import ForecastScreen

        seen = self.context.last_seen
        self.app.push_screen(ForecastScreen(rows, f"{what}, as last seen {seen}" if seen else what))

    def action_gone(self) -> None:
        from breakglass.screens.offline.rescue import GonePrompt

        silent = () if self._incident is None else sorted(self._incident.silent)
        self.app.push_screen(GonePrompt(self.context.watch.gone, silent), self._declare_gone)

    def _declare_gone(self, given: str | None) -> None:
        from breakglass.services.words.figures import brokers_in

        if given is not None:
            self.app.post_message(GoneDeclared(brokers_in(given)))

    def action_dead_broker(self) -> None:
        from breakglass.screens.offline.rescue import folders_prompt

        self.app.push_screen(folders_prompt(self._folders), self._check_return)

    def _check_return(self, given: str | None) -> None:
        from breakglass.screens.offline.rescue import DeadBrokerScreen, folders_in

        if given is not None:
            self._folders = given
            self.app.push_screen(DeadBrokerScreen(self.context, folders_in(given)))

    def action_hold(self) -> None:
        """Keep unclean elections from coming, whatever is marked: the act finds its topics."""
        if self._armed("recover freeze"):
            from breakglass.screens.guard import HoldPage
            from breakglass.services.recovery.acts.topic_settings import HoldElections

            self.app.push_screen(HoldPage(self.context, HoldElections()))

    def action_forget(self) -> None:
        """Let the controller forget the last leaders of the topics that are meant."""
        if self._armed("recover forget-leader"):
            from breakglass.screens.guard import ForgetPage
            from breakglass.services.recovery.acts.topic_settings import ForgetLeaders

            topics = sorted({partition.topic for partition in self._list.targets})
            act = ForgetLeaders(tuple(topics), tuple(sorted(self.context.watch.gone)))
            self.app.push_screen(ForgetPage(self.context, act))

    def _armed(self, command: str) -> bool:
        if not self.context.armed:
            told = (
                "This session is read-only: start it again with --write. "
                f"`breakglass {command}` says what it would do."
            )
            self.notify(told, severity="warning", markup=False)
        return self.context.armed

    def action_copy(self) -> None:
        targets = self._list.targets
        if targets:
            what = f"{len(targets):,} names" if len(targets) > 1 else str(targets[0])
            self.app.post_message(CopyAsked("\n".join(map(str, targets)), what))

    def action_switch(self) -> None:
        self.focus_next("PartitionList, ReplicaTable")

    # What is shown.

    @on(LineTable.Chosen)
    def _open_partition(self, message: LineTable.Chosen) -> None:
        from breakglass.screens.offline.partition import PartitionScreen

        self.app.push_screen(PartitionScreen(self.context, message.row.partition))

    @on(LineTable.Moved)
    def _moved(self) -> None:
        self._draw_panel()

    @on(PartitionList.Changed)
    def _listed(self) -> None:
        self._tell()

    def action_filter(self) -> None:
        self._list.keep_room(keep=True)
        super().action_filter()

    def filtered(self) -> None:
        self._list.keep_room(keep=False)

    def _draw_panel(self) -> None:
        incident, line = self._incident, self._list.current
        if incident is None:
            return
        seen = self.context.last_seen
        drawn = (line, incident.circumstances.words, seen)
        if line is not None and drawn == self._drawn:
            return
        key, self._drawn = None if line is None else line_key(line), drawn
        self.query_one(ReplicaTable).show(
            partial(panel_lines, incident, line, seen=seen), top=key != self._drawn_key
        )
        self._drawn_key = key

    def _tell(self) -> None:
        if self._incident is not None:
            self.query_one(ListingLine).said = tuple(self._pieces(self._incident))

    def _pieces(self, incident: Incident) -> Iterator[Words]:
        listed, total, order = self._list, len(incident.rows), self._list.view.order
        kept, groups = listed.listing.kept, len(listed.listing.groups)
        filtered = listed.view.filter.text
        if self._fault:
            yield Words(self._fault, Role.FAILED)
        if self.context.last_seen:
            yield Words(f"as last seen {self.context.last_seen}", Role.STALE)
        if len(listed.marks):
            yield Words(f"{len(listed.marks):,} marked", Role.MARKED)
        if filtered:
            shown = bounded(filtered, LONGEST_FILTER)
            yield Words(f"filter: {shown} ({kept:,} of {total:,})", Role.DIFFERENT)
        if incident.judged < total:
            yield Words(f"reading: {incident.judged:,} of {total:,}", Role.RUNNING)
        for brokers, words, role in (
            (sorted(incident.awaited), "waiting for", Role.RUNNING),
            (sorted(incident.silent.keys() - incident.awaited), "no answer from", Role.UNKNOWN),
            (self.context.watch.gone, "declared gone:", Role.DIFFERENT),
        ):
            if brokers:
                yield Words(f"{words} {', '.join(f'b{broker}' for broker in brokers)}", role)
        # Seconds since the oldest figures were read, where that is long before the metadata.
        oldest = incident.evidence_at_ms or incident.read_at_ms
        age = self.context.known.age(self.context.clock()) or 0.0
        seconds = int((incident.read_at_ms - oldest) / 1000 + age)
        if seconds >= OLD_SECONDS:
            yield Words(f"figures up to {age_text(seconds)} old (ctrl+r)", Role.STALE)
        if incident.missing_acls:
            first, *more = incident.missing_acls
            others = f" and {len(more):,} more" if more else ""
            yield Words(f"missing ACL: {first}{others}", Role.UNKNOWN)
        if order is not RowOrder.URGENCY:
            yield Words(f"by {order.value}", Role.MUTED)
        if groups and not filtered:
            what = "one group" if groups == 1 else f"{groups:,} groups"
            yield Words(f"{partitions_text(kept)} in {what}", Role.MUTED)
