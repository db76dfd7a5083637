"""Two replicas of a partition side by side, around the offset where they diverge."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.context import Context
from breakglass.screens.diff.lines import (
    about,
    counted_from,
    marks_of,
    prefix_text,
    titles_of,
    totals_text,
)
from breakglass.screens.diff.paged import SENTENCE_LENGTH, Connect, PagedPairs, Task, connect_to
from breakglass.screens.diff.pair_list import PairList
from breakglass.screens.diff.record_page import FOLD, REASON_LENGTH, RecordScreen
from breakglass.screens.widgets.facts import StyledLines
from breakglass.services.divergence.align import Comparison, HunkTotals, PairKind, RecordPair
from breakglass.services.divergence.pages import Window, count
from breakglass.services.divergence.replica_source import Facing, default_pair, face, readable
from breakglass.services.divergence.source import Extent
from breakglass.services.incident.incident import Incident
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style


class ChosenSides:
    """The choice of one screen; what is not chosen follows what is known."""

    def __init__(self, partition: TopicPartition, left: int | None, right: int | None) -> None:
        self.partition = partition
        self._left, self._right = left, right
        self.best: int | None = None
        """Who leads the ranking, as far as is known."""

    def facing(self, incident: Incident | None) -> Facing | Unknown:
        """The two replicas as they are known now, or why they cannot be compared."""
        found = self._found(incident)
        return found if isinstance(found, Unknown) else face(*found)

    def turn(self, side: str, incident: Incident | None) -> str:
        """Choose the next readable replica for *side*; returns why there is none, or nothing."""
        found = self._found(incident)
        if isinstance(found, Unknown):
            return found.reason
        evidence, *chosen = found
        mine, other = chosen if side == "left" else chosen[::-1]
        brokers = [replica.broker for replica in readable(evidence) if replica.broker != other]
        if not set(brokers) - {mine}:
            silent = (one.log_end for one in evidence.replicas if isinstance(one.log_end, Unknown))
            return f"No third replica can be read. {'; '.join(end.reason for end in silent)}"
        place = brokers.index(mine) if mine in brokers else -1
        turned = brokers[(place + 1) % len(brokers)]
        self._left, self._right = (turned, other) if side == "left" else (other, turned)
        return ""

    def swap(self, incident: Incident | None) -> None:
        found = self._found(incident)
        if not isinstance(found, Unknown):
            _, self._right, self._left = found

    def _found(self, incident: Incident | None) -> tuple[PartitionEvidence, int, int] | Unknown:
        """What is known of the replicas, and the two that are compared."""
        if incident is None:
            return Unknown("The cluster is being read.")
        if incident.row(self.partition) is None:
            return Unknown(f"{self.partition} is not offline: its replicas follow one leader.")
        known = incident.assessment(self.partition)
        if known is None:
            return Unknown(f"The replicas of {self.partition} have not been read yet.")
        self.best = known.best
        if self._left is not None and self._right is not None:
            return known.evidence, self._left, self._right
        pair = default_pair(known.evidence, known.best if self._left is None else self._left)
        if isinstance(pair, Unknown):
            return pair
        left = pair[0] if self._left is None else self._left
        return known.evidence, left, pair[1] if self._right is None else self._right


class ReplicaRecordScreen(RecordScreen):
    """A record of two replicas."""

    ABOUT = (
        "One record as both replicas have it. In front of each line: = the same, ! different, "
        "< only on the left, > only on the right, ? not read."
    )
    BINDINGS: ClassVar[list[BindingType]] = [FOLD]
    GONE = "Neither replica has this record any more: press Esc, then ctrl+r."


class DiffScreen(PagedPairs[Facing]):
    """Reads around the divergence first, and wherever the operator goes from there."""

    TITLE = "Replica diff"
    ABOUT = (
        "One partition as two brokers have it, offset by offset. In front of each line: = the "
        "same, ! different, < only on the left, > only on the right, ? not read; then what "
        "differs: e epoch, k key, v value, h headers, t timestamp, y its type, m marker."
    )
    EMPTY = "Both logs are empty."
    CSS = f"""
    {PagedPairs.CSS}
    #diff-summary {{ max-height: 4; }}
    #diff-offset {{
        dock: bottom; height: 1; margin-bottom: 1; border: none; padding: 0 1; display: none;
    }}
    #diff-offset.shown {{ display: block; }}
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape", "back", "Back", tooltip="Stop reading; when nothing is read, go back"),
        Binding("n", "search(True)", "Next", tooltip="Next difference"),
        Binding("N", "search(False)", "Previous", tooltip="Previous difference"),
        Binding("v", "form", "View", tooltip="As text, JSON or hex in turn"),
        Binding("g", "ask_offset", "Go to", tooltip="Go to an offset"),
        Binding("d", "divergence", "Divergence", tooltip="Where the two logs diverge", show=False),
        Binding("home", "end(False)", "First offset", show=False),
        Binding("end", "end(True)", "Last offset", show=False),
        Binding("l", "other('left')", "Left", tooltip="Another replica on the left"),
        Binding("o", "other('right')", "Right", tooltip="Another replica on the right"),
        Binding("s", "swap", "Swap", tooltip="Swap the sides", show=False),
        Binding("c", "count", "Count", tooltip="Count all differences to the end of both logs"),
    ]

    def __init__(
        self,
        context: Context,
        partition: TopicPartition,
        left: int | None = None,
        right: int | None = None,
        connect: Connect[Facing] | None = None,
    ) -> None:
        super().__init__(context, connect or partial(connect_to, context))
        self._sides = ChosenSides(partition, left, right)
        self._facing: Facing | None = None
        """What is compared now; None until two replicas are known that can be."""
        self._totals: HunkTotals | None = None
        self._reread = False
        """The operator asked to read everything again: what is known next is compared again."""

    def body(self) -> Iterator[Widget]:
        yield StyledLines(id="diff-summary")
        yield PairList(self._moved)
        yield StyledLines(id="status")
        yield Input(
            id="diff-offset",
            placeholder="offset, then Enter",
            restrict="[0-9,]*",
            max_length=26,
            select_on_focus=False,
        )

    def on_mount(self) -> None:
        self.query_one(PairList).focus()

    def show_known(self) -> None:
        found = self._sides.facing(self.context.known.incident)
        if isinstance(found, Unknown):
            if self._facing is None:
                self._pairs.set_window(self._pairs.window, empty=bounded(found.reason, 300))
        elif self._facing is None or self._reread:
            self._compare(found)
        elif found != self._facing:
            self._said = "The logs have changed since they were read: ctrl+r reads them again."
        self.draw()

    def action_ask_refresh(self) -> None:
        self._reread = True
        super().action_ask_refresh()

    def action_back(self) -> None:
        if self._field.has_class("shown"):
            self._hide_field()
        else:
            self.leave()

    def action_search(self, forward: bool) -> None:
        self._go_to_difference(forward=forward)

    def action_divergence(self) -> None:
        if self._facing is None:
            return
        if isinstance(self._facing.divergence, Unknown):
            self._say(f"Not known: {self._facing.divergence.reason}")
        else:
            self._go(self._facing.divergence)

    def action_ask_offset(self) -> None:
        self._field.add_class("shown")
        self._field.value = ""
        self._field.focus()

    def action_other(self, side: str) -> None:
        said = self._sides.turn(side, self.context.known.incident)
        if said:
            self._say(said)
        else:
            self._change_sides()

    def action_swap(self) -> None:
        self._sides.swap(self.context.known.incident)
        self._change_sides()

    def action_count(self) -> None:
        facing = self._facing
        if facing is None or self._beside is not None:
            return

        def work(comparison: Comparison, task: Task) -> None:
            totals = count(
                comparison,
                counted_from(facing),
                task.reading,
                lambda totals: task.moved(totals.counted_to),
            )
            task.tell(self._counted, totals)

        self._begin_beside("Counting the differences", work)

    @on(Input.Submitted, "#diff-offset")
    def _offset_given(self, message: Input.Submitted) -> None:
        digits = message.value.replace(",", "")
        self._hide_field()
        if digits:
            self._go(int(digits))

    @property
    def subject(self) -> Facing | None:
        return self._facing

    @property
    def topic(self) -> str:
        return self._sides.partition.topic

    @property
    def extent(self) -> Extent | None:
        return None if self._facing is None else self._facing.extent

    def _moved(self) -> None:
        self._say("")

    @on(PairList.Chosen)
    def _open(self, message: PairList.Chosen) -> None:
        if self._facing is not None:
            self.app.push_screen(ReplicaRecordScreen(self, message.pair))

    def show_window(self, window: Window, goal: int | None) -> None:
        super().show_window(window, goal)
        if self._facing is not None:
            start, end = counted_from(self._facing), self._facing.extent.end
            if window.start <= start and window.end >= end:
                self._take(window.totals_from(start))
            self.draw()

    def show_none(self, forward: bool) -> None:
        self._say(f"No difference {'after' if forward else 'before'} this record.")

    def _counted(self, totals: HunkTotals) -> None:
        self._take(totals)
        self.draw()

    def _take(self, totals: HunkTotals) -> None:
        """Show *totals*, unless they know less than those of the same logs before."""
        before = self._totals
        if before is not None and totals.kinds[PairKind.UNREAD] > before.kinds[PairKind.UNREAD]:
            self._said = "Part of the logs could not be read: the totals are from the last count."
        else:
            self._totals = totals

    @property
    def _field(self) -> Input:
        return self.query_one("#diff-offset", Input)

    def _compare(self, facing: Facing) -> None:
        """Compare these two from now on: at the divergence, or where the cursor was before."""
        same = self._facing is not None and facing.partition == self._facing.partition
        kept = self._offset if self._reread and same and self._pairs.current else facing.begin
        self._abandon()
        self._reread, self._totals, self._facing = False, None, facing
        titles = titles_of(facing, self._sides.best)
        self._pairs.set_sides(titles, tuple(marks_of(facing)))
        self._pairs.set_extent(facing.extent)
        self.read_around(kept)

    def _change_sides(self) -> None:
        found = self._sides.facing(self.context.known.incident)
        if isinstance(found, Unknown):
            self._say(found.reason)
        else:
            self._compare(found)
            self.draw()

    def _hide_field(self) -> None:
        self._field.remove_class("shown")
        self._pairs.focus()

    def draw(self) -> None:
        self.query_one("#diff-summary", StyledLines).tell(self._summary())
        self.draw_doing()

    def _summary(self) -> Text:
        text = Text(" ")
        name = bounded(str(self._sides.partition), 60)
        text.append(name, role_style(self.app, Role.HEADING))
        facing = self._facing
        if facing is None:
            return text
        left, right = facing.left.broker, facing.right.broker
        text.append(f"  < b{left}  > b{right}  as {self._pairs.manner.form}\n ")
        front = bounded(prefix_text(facing), SENTENCE_LENGTH)
        text.append(front, role_style(self.app, Role.DIVERGED))
        told = totals_text(facing, self._totals)
        beside = len(front) + len(told) + 2 <= self.size.width
        return text.append(f" {told}" if beside else f"\n {told}")

    def about(self, pair: RecordPair) -> str:
        return "" if self._facing is None else about(pair, self._facing)

    def heading(self, pair: RecordPair, form: str, width: int) -> Text:  # noqa: ARG002
        facing = self._facing
        assert facing is not None
        text = Text(" ", no_wrap=True, overflow="ellipsis")
        text.append(bounded(str(facing.partition), 60), role_style(self.app, Role.HEADING))
        text.append(f"  < b{facing.left.broker}  > b{facing.right.broker}  as {form}\n ")
        return text.append(bounded(about(pair, facing, letters=False), REASON_LENGTH))
