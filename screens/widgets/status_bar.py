"""The two lines on top of every screen: which cluster, in what state, how old; and what to do.

The first line names the cluster, how far the operator's hand reaches, the quorum, the brokers and
the age of it all. The second is the sentence that matters most: what must be stopped, why there
is no newer truth, or what helps most.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from rich.cells import cell_len, set_cell_size
from rich.style import Style
from rich.text import Text
from textual.widget import Widget

from breakglass.screens.context import Context, Known
from breakglass.screens.widgets.line_table import CUT
from breakglass.services.incident.elections_seen import alarm_lines, unacknowledged
from breakglass.services.model import Unknown
from breakglass.services.recovery.judgement.succession import quorum_lost, rescue_before
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, Words, role_style

if TYPE_CHECKING:
    from breakglass.services.incident.incident import Incident

SENTENCE_LENGTH = 320
NAME_LEAST = 8
ALARM_LENGTH = 640
MOST_LINES = 8
SCREEN_LINES_PER_LINE = 6
"""Of the screen's lines, for each that a sentence may take: the list stays visible."""


class StatusBar(Widget):
    """Drawn again by `tell`, each second and whenever something is known."""

    DEFAULT_CSS = """
    StatusBar { dock: top; height: 2; }
    """

    def __init__(self, context: Context) -> None:
        super().__init__()
        self.context = context
        self._height = 2

    def tell(self) -> None:
        """Draw what is known now, on as many lines as that takes."""
        lines = self._lines(self.size.width or self.app.size.width)
        height = min(len(lines), MOST_LINES)
        if height != self._height:
            self._height = height
            self.styles.height = height
        self.refresh()

    def render(self) -> Text:
        return Text("\n").join(self._lines(self.size.width)[:MOST_LINES])

    def on_resize(self) -> None:
        self.tell()

    def _lines(self, width: int) -> list[Text]:
        parts = _fitting(list(_parts(self.context, self.context.clock())), width)
        text = Text(no_wrap=True, overflow="ellipsis")
        for part in parts:
            text.append("  " if text else " ").append(part.text, self._style(part.role))
        text.truncate(width, overflow="ellipsis")
        lines = [text, *self._alarms(width)]
        keys = bool(self.app.check_action("save_before_return", ()))
        keys &= not getattr(self.screen, "TAKES_PHRASES", False)
        for sentences in _told(self.context, keys=keys):
            text = Text("   ").join(
                [
                    Text(inert(bounded(sentence.text, SENTENCE_LENGTH)), self._style(sentence.role))
                    for sentence in sentences
                ]
            )
            lines += self._wrapped(text, width)
        return lines

    def _wrapped(self, text: Text, width: int) -> list[Text]:
        """*text* on no more lines than the screen's height allows."""
        most = max(self.app.size.height // SCREEN_LINES_PER_LINE, 2)
        wrapped = [*text.wrap(self.app.console, max(width - 2, 20))]
        if len(wrapped) > most:
            wrapped = wrapped[:most]
            wrapped[-1] = wrapped[-1][:-1].append(CUT, text.style)
        return [Text(" ").append_text(line) for line in wrapped]

    def _alarms(self, width: int) -> Iterator[Text]:
        """What was seen and not acknowledged: the first sentence, and how many more there are."""
        told = _alarmed(self.context.known)
        if not told:
            return
        style = self._style(Role.BOMB)
        text = Text(inert(bounded(told[0], ALARM_LENGTH)), style)
        more = f" And {len(told) - 1:,} more: press 4." if told[1:] else ""
        yield from self._wrapped(text, width)
        if more:
            yield Text(more, style)

    def _style(self, role: Role | None) -> Style:
        return role_style(self.app, role)


def _fitting(parts: list[Words], width: int) -> list[Words]:
    """*parts* in a line of *width*: the name is cut, what is spare is left out."""
    for spare in (0, 1, 2):
        kept = [part for part in parts if not 0 < part.spare <= spare]
        over = sum(cell_len(part.text) for part in kept) + 2 * len(kept) - 1 - width
        if over <= 0:
            return kept
        if spare and cell_len(kept[0].text) - over >= NAME_LEAST:
            break
    name = kept[0]
    room = max(cell_len(name.text) - over, NAME_LEAST)
    return [Words(set_cell_size(name.text, room - 1) + CUT, name.role), *kept[1:]]


def _parts(context: Context, now: float) -> Iterator[Words]:
    known = context.known
    incident = known.incident
    cluster = "breakglass" if incident is None else incident.snapshot.cluster_id
    yield Words(inert(context.profile or cluster), Role.HEADING)
    bundle = context.bundle
    reach = "READ-ONLY" if bundle is None else "BUNDLE"
    yield Words("WRITE", Role.ARMED) if context.armed else Words(reach, Role.READONLY)
    if incident is None:
        yield Words("connecting" if not known.failure else "not connected", Role.UNKNOWN)
        return
    if context.last_seen:
        yield Words("? offline", Role.UNKNOWN)
    else:
        yield _quorum(incident)
        brokers = incident.snapshot.brokers
        fenced = sum(broker.fenced is True for broker in brokers)
        away = f", {fenced} fenced" if fenced else ""
        yield Words(f"{len(brokers)} broker{'s' * (len(brokers) != 1)}{away}", spare=2)
        number = len(incident.rows)
        yield Words(f"{number:,} offline", Role.OFFLINE if number else None)
    if bundle is None:
        yield _age(known, now)
    else:
        yield Words(f"at {time_text(bundle.captured_at_ms)}", Role.MUTED)


def _quorum(incident: Incident) -> Words:
    quorum = incident.snapshot.quorum
    if quorum_lost(quorum):
        return Words("NO QUORUM", Role.BOMB)
    if isinstance(quorum, Unknown):
        return Words("quorum ?", Role.UNKNOWN)
    return Words("quorum ok", spare=1)


def _age(known: Known, now: float) -> Words:
    age = known.age(now)
    if age is None:
        return Words("")
    if known.paused:
        return Words("refresh paused", Role.RUNNING)
    if known.stale(now):
        return Words(f"STALE {age_text(age)}", Role.STALE)
    return Words(f"{age_text(age)} ago")


def age_text(seconds: float) -> str:
    """``4 s``, ``3 min``, ``2 h``."""
    if seconds < 120:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 7200 else f"{seconds / 3600:.0f} h"


def _headline(context: Context, incident: Incident, *, keys: bool) -> str:
    """What helps most; on a bundle no key does it."""
    headline, broker = incident.summary.headline, incident.summary.rescue_first
    if keys and context.bundle is None and broker is not None:
        for run, press in (("Run", "Press"), ("run", "press")):
            headline = headline.replace(
                f"{run} {rescue_before(broker)},", f"{press} W to save what b{broker} lacks,"
            )
    return headline


def _as_it_was(incident: Incident) -> str:
    """What was offline, and what there was to do, in words that claim nothing of now."""
    if not incident.rows:
        return "none offline."
    said = " ".join(filter(None, (incident.summary.alarm, incident.summary.headline)))
    advice = f' It said: "{said}"' if incident.judged else ""
    return f"{len(incident.rows):,} offline.{advice}"


def _alarmed(known: Known) -> tuple[str, ...]:
    """Sentences of elections that cost records, until somebody has taken note of them."""
    if not known.alarming:
        return ()
    told = alarm_lines(unacknowledged(known.observations))
    unwritten = f" (not in the journal: {known.unwritten})" if known.unwritten else ""
    return (f"{told[0]}.{unwritten}", *told[1:])


def _told(context: Context, *, keys: bool) -> Iterator[tuple[Words, ...]]:
    """Line by line: what must be stopped, what helps most; why there is no newer truth.

    With *keys* it is said by which key that is done.
    """
    known = context.known
    incident = known.incident
    if incident is not None and context.last_seen:
        now = context.clock()
        why = "no newer answer has come yet" if known.reading else "it was not read again"
        if known.paused:
            why = "nothing is read while something is changed"
        yield (
            Words(
                f"UNKNOWN for {age_text(known.age(now) or 0.0)}: {known.failure or why}",
                Role.FAILED,
            ),
        )
        yield (Words(f"Last seen {context.last_seen}: {_as_it_was(incident)}"),)
        return
    if incident is None:
        if not known.failure:
            yield (Words("Reading the cluster.", Role.MUTED),)
    elif incident.rows and not incident.judged:
        reading = f"Reading the replicas of {len(incident.rows):,} offline partitions."
        yield (Words(reading, Role.MUTED),)
    elif incident.summary.alarm:
        yield (
            Words(incident.summary.alarm, Role.BOMB),
            Words(_headline(context, incident, keys=keys)),
        )
    else:
        yield (Words(_headline(context, incident, keys=keys)),)
    if incident is not None and incident.unwritten and not known.alarming:
        yield (Words(incident.unwritten, Role.UNKNOWN),)
    if known.failure:
        yield (Words(known.failure, Role.FAILED),)
