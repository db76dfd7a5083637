"""How far each partition of an election is: a glyph, a word, a reason; never colour alone."""

from __future__ import annotations

from dataclasses import dataclass

from services.recovery.execution.target import Outcome, Result, Rung
from services.words.figures import count
from themes.roles import Role

RUNGS = len(Rung)
CLIMBED, AHEAD = "■", "·"
ORDER_LEFT = "; the order of its assignment was not put back: resume the journal"


@dataclass(frozen=True, slots=True)
class Standing:
    """What is shown of one partition."""

    glyph: str
    word: str
    role: Role | None = None
    reason: str = ""
    """The whole sentence, for the line below the table."""
    weight: int = 0
    """What needs the operator comes first when all is over: the greater, the earlier."""

    @property
    def text(self) -> str:
        return f"{self.glyph} {self.word}".strip()


ASKED = Standing("", "")
WAITING = Standing(AHEAD * RUNGS, "waits for its turn", Role.MUTED)
LOOKED_AT = Standing("»", "read again", Role.RUNNING)
ELECTING = Standing("»", "electing", Role.RUNNING)
CONFIRMED = Standing(
    "", "to be confirmed", None, "its designee leads: it is confirmed, and its order put back"
)
"""Of a partition that a resume finds led as it should be."""


def alone(why: str) -> Standing:
    """A partition that needs a phrase of its own."""
    return Standing("!", "own phrase", Role.LOST, f"needs a consent of its own: {why}")


def spared(instead: str, why_alone: str = "") -> Standing:
    """A partition that needs no election if something else is done."""
    own = f"; to elect it {alone(why_alone).reason}" if why_alone else ""
    return Standing("", f"or {instead}", Role.WAITING, f"needs no election if you {instead}{own}")


def left_out(reason: str) -> Standing:
    """A partition that is not elected."""
    return Standing("-", "left out", Role.MUTED, reason)


def changed(reason: str) -> Standing:
    """A partition whose evidence is not what was agreed to any more."""
    return Standing("!", f"changed: {reason}", Role.FAILED, reason, 1)


def standing_of(outcome: Outcome) -> Standing:
    """What came of one partition."""
    if outcome.result is Result.ELECTED:
        return _elected(outcome)
    glyph, role, weight = _UNELECTED[outcome.result]
    word = str(outcome.result)
    if outcome.result is Result.ELECTED_ANOTHER:
        word = f"b{outcome.leader} was elected"
    elif outcome.result is Result.REORDERED:
        word = "reordered only"
    reason = outcome.reason
    if outcome.order_restored is False and outcome.result is not Result.REORDERED:
        reason = f"{reason}{ORDER_LEFT}"
    return Standing(glyph, word, role, reason, weight)


def _elected(outcome: Outcome) -> Standing:
    if outcome.rung is None:
        return Standing("!", "leader lost again", Role.FAILED, outcome.reason, 4)
    glyph = CLIMBED * outcome.rung + AHEAD * (RUNGS - outcome.rung)
    role = Role.VERIFIED if outcome.rung >= Rung.WRITABLE else Role.RUNNING
    led = f"b{outcome.leader} leads in epoch {count(outcome.leader_epoch)}"
    reason = f"{led}; {MEANING[outcome.rung]}"
    if outcome.order_restored is False:
        reason += ORDER_LEFT
    return Standing(glyph, str(outcome.rung), role, reason)


MEANING = {
    Rung.ELECTED: "it has not said so itself",
    Rung.SERVING: "it answers as leader; its high watermark is behind",
    Rung.READABLE: "consumers read to the end; too few replicas are in sync for acks=all",
    Rung.WRITABLE: "acks=all is taken; no other replica is in sync yet",
    Rung.REDUNDANT: "another replica is in sync",
}

_UNELECTED = {
    Result.ALREADY_ONLINE: ("✓", Role.VERIFIED, 0),
    Result.UNDONE: ("✓", Role.VERIFIED, 0),
    Result.NOT_ATTEMPTED: ("-", Role.MUTED, 1),
    Result.REFUSED: ("!", Role.FAILED, 2),
    Result.FAILED: ("x", Role.FAILED, 3),
    Result.REORDERED: ("!", Role.FAILED, 4),
    Result.UNKNOWN: ("?", Role.UNKNOWN, 5),
    Result.ELECTED_ANOTHER: ("x", Role.FAILED, 6),
}
