"""Everything that is known about one partition, to be read at leisure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from breakglass.screens.context import Context
from breakglass.screens.messages import CopyAsked, DiffAsked, ElectionAsked
from breakglass.screens.widgets.replica_table import (
    COPIED_WIDTH,
    Line,
    ReplicaTable,
    TextPage,
    partition_lines,
    plain_text,
    reason_lines,
)
from breakglass.services.incident.listing import Forecast, Outlook, forecast_of
from breakglass.services.incident.row import IncidentRow, name_text
from breakglass.services.model import (
    PartitionEvidence,
    ReplicaLog,
    TopicPartition,
    TopicSettings,
    Unknown,
)
from breakglass.services.recovery.judgement.assessment import Assessment, Verb, Verdict
from breakglass.services.recovery.judgement.succession import IF_AS_IT_WAS
from breakglass.services.words.figures import (
    NAMED_IN_SENTENCE,
    broker_names,
    contents_sentence,
    count,
    loss_text,
    shown,
    unread_told,
)
from breakglass.services.words.inert import bounded
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words

MOST_GROUPS = 50
"""Consumer groups that are named."""


class PartitionScreen(TextPage):
    """One partition; Esc goes back to the list."""

    TITLE = "Partition"
    ABOUT = "Everything that was read of one partition, and what each choice would lose."
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("e", "elect", "elect", tooltip="Elect its best replica, step by step"),
        Binding("d", "diff", "diff", tooltip="Compare two replicas, record by record"),
        Binding("y", "copy", "copy", tooltip="Copy this text"),
        Binding("escape", "dismiss", "back"),
    ]

    def __init__(self, context: Context, partition: TopicPartition) -> None:
        super().__init__(context)
        self._partition = partition
        self._assessment: Assessment | None = None
        """The last that was known."""
        self._gone = False

    def show_known(self) -> None:
        incident = self.context.known.incident
        if incident is not None:
            self._assessment = incident.assessment(self._partition) or self._assessment
            self._gone = incident.row(self._partition) is None
            self.draw()

    def tick(self) -> None:
        if self.context.last_seen:
            self.show_known()

    def lines(self, width: int) -> Iterator[Line]:
        return self._lines(width, gone=self._gone)

    def _lines(self, width: int, *, gone: bool) -> Iterator[Line]:
        seen = self.context.last_seen
        if seen:
            state = "it was not offline any more, and before:" if gone else "this was so:"
            news = f" What is so by now is UNKNOWN. At {seen} {state}"
            yield (Words(bounded(news, width), Role.STALE),)
        elif gone:
            news = f" {self._partition} is not offline any more. Last seen:"
            yield (Words(bounded(news, width), Role.VERIFIED),)
        if self._assessment is not None:
            yield from everything(self._assessment, width)

    def action_elect(self) -> None:
        self.app.post_message(ElectionAsked((self._partition,)))

    def action_diff(self) -> None:
        self.app.post_message(DiffAsked(self._partition))

    def action_copy(self) -> None:
        text = plain_text(self._lines(COPIED_WIDTH, gone=False))
        self.app.post_message(CopyAsked(text, f"the facts about {self._partition}"))


def everything(assessment: Assessment, width: int) -> Iterator[Line]:
    """All about one partition, in *width* cells."""
    evidence = assessment.evidence
    verdict = f"{assessment.verdict.value} {assessment.action}"
    yield (Words(f" {verdict}", Role.HEADING),)
    yield from partition_lines(assessment, width)
    yield from _section("By itself", [_forecast(assessment)], width)
    yield from _section("Each choice", _choices(assessment), width)
    yield from _section("Only in unread replicas", [_unread(assessment)], width)
    yield from _section("Replicas", map(_replica, evidence.replicas), width)
    yield from _section("Topic", _settings(evidence.settings), width)
    yield from _section("Controller's record", _state(evidence), width)
    yield from _section("Committed by groups", _groups(evidence), width)


def _section(title: str, sentences: Iterable[str], width: int) -> Iterator[Line]:
    yield ()
    yield (Words(f" {title}", Role.HEADING),)
    yield from reason_lines(sentences, width)


def _forecast(assessment: Assessment) -> str:
    told = assessment.forecast
    if told.broker is None:
        return f"nobody is elected: {told.reason}"
    if assessment.action.verb is Verb.AWAIT:
        return f"the controller elects b{told.broker} by itself: {told.reason}"
    stop = f"; stop b{told.broker} NOW" if assessment.verdict is Verdict.BOMB else ""
    return f"the controller may elect b{told.broker} at any moment: {told.reason}{stop}"


def _choices(assessment: Assessment) -> Iterator[str]:
    for candidate in assessment.ranking.candidates:
        loss = assessment.loss_of(candidate.broker)
        parts = [f"electing b{candidate.broker} loses {loss_text(loss)}"]
        if isinstance(loss.total, Unknown):
            parts.append(loss.total.reason)
        elif loss.total:
            parts.append(f"{count(loss.records.committed)} of them known to be committed")
        parts += [remark for remark in (candidate.eligibility.reason, candidate.remark) if remark]
        yield "; ".join(parts)


def _unread(assessment: Assessment) -> str:
    unread = assessment.unread
    least = unread.at_least
    names = broker_names(unread.replicas, NAMED_IN_SENTENCE)
    if isinstance(least, Unknown):
        return f"{names} unread; how many records only {names} may hold: ? {least.reason}"
    told = unread_told([unread])
    return f"{told}, known from {unread.source}" if unread.source and least else told


def _replica(replica: ReplicaLog) -> str:
    name = f"b{replica.broker}, {replica.role.value}"
    if isinstance(replica.log_end, Unknown):
        copy = replica.only_copy
        left = "" if copy is None else f"; only a copy is left, in {copy.path}"
        return f"{name}: {replica.log_end.reason}{left}"
    told = [
        f"read {time_text(replica.observed_at_ms)} by {replica.source.value}",
        f"current leader epoch {count(replica.leader_epoch)}",
        f"epochs written: {_epochs(replica)}",
        f"newest record {time_text(replica.newest_ms)}",
        contents_sentence(replica),
    ]
    if isinstance(replica.high_watermark, Unknown):
        told.append(replica.high_watermark.reason)
    if not isinstance(replica.log_dir, Unknown):
        told.append(f"in {replica.log_dir.path}, {count(replica.log_dir.size)} bytes")
        if replica.log_dir.copy is not None:
            told.append(f"being moved to {replica.log_dir.copy.path}")
    return f"{name}: {'; '.join(told)}"


def _epochs(replica: ReplicaLog) -> str:
    if isinstance(replica.epochs, Unknown):
        return f"? {replica.epochs.reason}"
    ranges = [
        f"{epochs.epoch} at {epochs.start:,}-{epochs.end - 1:,}" for epochs in replica.epochs.ranges
    ]
    return ", ".join(ranges) or "none"


def _settings(settings: TopicSettings) -> Iterator[str]:
    yield f"min.insync.replicas {shown(settings.min_insync_replicas)}"
    yield f"unclean leader election {shown(settings.unclean_election)}"
    yield f"compacted {shown(settings.compacted)}, tiered {shown(settings.tiered)}"


def _state(evidence: PartitionEvidence) -> Iterator[str]:
    state = evidence.state
    yield f"topic id {state.topic_id}"
    yield f"ISR {_ids(state.isr)}, ELR {_ids(state.elr)}, last known {_ids(state.last_known_elr)}"
    if isinstance(state.reassignment, Unknown):
        yield f"reassignment unknown: {state.reassignment.reason}"
    elif state.reassignment is not None:
        moving = state.reassignment
        yield f"reassignment adds {_ids(moving.adding)}, removes {_ids(moving.removing)}"
    if evidence.unregistered:
        yield f"not registered: {_ids(evidence.unregistered)}"


def _groups(evidence: PartitionEvidence) -> Iterator[str]:
    if isinstance(evidence.group_offsets, Unknown):
        yield f"? {evidence.group_offsets.reason}"
        return
    held = sorted(evidence.group_offsets.items(), key=lambda item: (-item[1], item[0]))
    for group, offset in held[:MOST_GROUPS]:
        yield f"{group} at {offset:,}"
    if len(held) > MOST_GROUPS:
        yield f"and {len(held) - MOST_GROUPS:,} more groups, all at lower offsets"
    if not held and not evidence.groups_unread:
        yield "none"
    for unread in evidence.groups_unread:
        yield f"? {unread}"


def _ids(brokers: tuple[int, ...] | Unknown) -> str:
    if isinstance(brokers, Unknown):
        return "?"
    return ",".join(map(str, brokers)) or "empty"


MOST_TOPICS = 12
"""Topics that are named for each outlook; the others are counted."""


class ForecastScreen(ModalScreen[None]):
    """Over the list; Esc closes it."""

    CSS = """
    ForecastScreen { align: center middle; }
    ForecastScreen > Vertical {
        width: 90; max-width: 100%; height: auto; max-height: 100%;
        border: round $primary; background: $surface;
    }
    ForecastScreen ReplicaTable { height: 20; max-height: 100%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [Binding("escape,f,q", "dismiss", "Close")]

    def __init__(self, rows: Sequence[IncidentRow], what: str) -> None:
        """*what* names the rows: ``12 offline partitions marked``."""
        super().__init__()
        self._what = what
        self._forecast = forecast_of(rows)

    def compose(self) -> ComposeResult:
        with Vertical():
            yield ReplicaTable()

    def on_mount(self) -> None:
        self.query_one(ReplicaTable).show(self._told, top=False)

    def _told(self, width: int) -> list[Line]:
        lines = forecast_lines(self._forecast, self._what, width)
        self.query_one(ReplicaTable).styles.height = len(lines)
        return lines


def forecast_lines(forecast: Forecast, what: str, width: int) -> list[Line]:
    """What to show of *forecast*, in *width* cells."""
    lines: list[Line] = [(Words(f" If nobody intervenes: {what}", Role.HEADING),)]
    for outlook in forecast.outlooks:
        lines += _outlook(outlook, width)
    if forecast.unread:
        lines.append((Words(f" {forecast.unread:,} not read yet", Role.UNKNOWN),))
    if forecast.restores:
        lines += [(), (Words(" What brings partitions back whole", Role.HEADING),)]
    for restore in forecast.restores:
        cure = f"{restore.first} first, then start" if restore.first else "start"
        cure, how = ("reconnect", "to the controllers") if restore.runs else (cure, IF_AS_IT_WAS)
        lines.append((Words(f" {restore.partitions:>7,}  {cure} b{restore.broker} {how}"),))
    return lines


def _outlook(outlook: Outlook, width: int) -> Iterator[Line]:
    number = f" {len(outlook.rows):>7,}  "
    role = Role.BOMB if outlook.harmful else None
    for place, (line,) in enumerate(reason_lines([_fate(outlook)], width - 9)):
        yield (
            Words(number if not place else " " * len(number)),
            Words(line.text[3:], role),
        )
    names = [name_text(topic if len(topic.rows) > 1 else topic.rows[0]) for topic in outlook.topics]
    shown = ", ".join(names[:MOST_TOPICS])
    more = f", and {len(names) - MOST_TOPICS:,} more topics" if len(names) > MOST_TOPICS else ""
    for (line,) in reason_lines([shown + more], width - 9):
        yield (Words(" " * len(number) + line.text[3:], Role.MUTED),)


def _fate(outlook: Outlook) -> str:
    if outlook.successor is None:
        harm = "; once unfenced a wrong replica is elected" if outlook.harmful else ""
        stay = "it stays" if len(outlook.rows) == 1 else "they stay"
        return f"nobody is elected, {stay} offline{harm}"
    named = f"b{outlook.successor}"
    if outlook.harmful:
        return (
            f"the controller may elect {named} at any moment, which destroys records: stop "
            f"{named} NOW"
        )
    if outlook.whole:
        return f"the controller elects {named} by itself; no replica that was read holds more"
    return f"the controller may elect {named} at any moment, an unclean election"
