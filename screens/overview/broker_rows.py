"""The table of brokers: those in trouble first, each with what the controller and we know."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.status_bar import age_text
from breakglass.services.health.brokers import BrokerHealth
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count
from breakglass.themes.roles import Role

if TYPE_CHECKING:
    from breakglass.services.health.monitor import Health

ASK_EVERY_SECONDS = 10.0
"""How often brokers are asked about themselves; their answers are stale three times later."""


@dataclass(frozen=True, slots=True)
class BrokerRow:
    """A broker and the moment it is shown."""

    health: BrokerHealth
    now_ms: int

    @property
    def id(self) -> int:
        return self.health.id

    @property
    def state(self) -> Cell:
        """In words, what is wrong first."""
        words, role = _state(self.health)
        voice = self.health.voice
        age = (self.now_ms - voice.asked_at_ms) / 1_000
        if voice.asked_at_ms and age > 3 * ASK_EVERY_SECONDS:
            return Cell(f"{words} (STALE {age_text(age)})", role or Role.STALE)
        return Cell(words, role)

    @property
    def dirs(self) -> Cell:
        figure = self.health.voice.log_dirs
        offline = self.health.offline_dirs
        if isinstance(offline, Unknown) or isinstance(figure.value, Unknown):
            return Cell("?", Role.UNKNOWN)
        if offline:
            return Cell(f"{offline} of {len(figure.value)} off", Role.OFFLINE)
        return Cell(str(len(figure.value)), Role.STALE if figure.failed else None)

    @property
    def behind(self) -> Cell:
        held = self.health.held
        number = held.replicas - held.in_sync
        return Cell(count(number), Role.WAITING if number else None)


def broker_rows(health: Health, now_ms: int) -> Sequence[BrokerRow]:
    """A row for each broker, those in trouble first."""
    brokers = health.brokers.value
    if isinstance(brokers, Unknown):
        return ()
    ordered = sorted(brokers, key=lambda broker: (broker.sound, broker.id))
    return [BrokerRow(broker, now_ms) for broker in ordered]


def broker_columns() -> tuple[LineColumn[BrokerRow], ...]:
    """The columns; a narrow terminal gets those that say what is wrong."""
    return (
        LineColumn("Broker", lambda row: Cell(f"b{row.id}")),
        LineColumn("State", lambda row: row.state, shrinks=True, most=44),
        LineColumn("Log dirs", lambda row: row.dirs),
        LineColumn("Rack", _rack, least_width=66, most=16),
        LineColumn("Leads", lambda row: Cell(count(row.health.held.leads)), right=True),
        LineColumn(
            "Replicas",
            lambda row: Cell(count(row.health.held.replicas)),
            right=True,
            least_width=76,
        ),
        LineColumn("Behind", lambda row: row.behind, right=True),
        LineColumn("Address", _address, least_width=100, shrinks=True),
    )


def _rack(row: BrokerRow) -> Cell:
    registration = row.health.registration
    return Cell((registration.rack if registration else None) or "-")


def _address(row: BrokerRow) -> Cell:
    registration = row.health.registration
    return Cell(f"{registration.host}:{registration.port}" if registration else "-")


def _state(broker: BrokerHealth) -> tuple[str, Role | None]:
    voice = broker.voice
    if broker.registration is None:
        return "NOT REGISTERED", Role.STUCK
    if broker.fenced is True:
        unasked = isinstance(voice.why_silent, Unknown)
        heard = "" if unasked else f", {voice.why_silent or 'answers'}"
        return f"FENCED{heard}", Role.OFFLINE
    if voice.silent:
        return f"SILENT: {voice.why_silent}", Role.OFFLINE
    if isinstance(voice.why_silent, Unknown):
        return "not asked yet", Role.UNKNOWN
    return ("ok", None) if broker.sound else ("LOG DIR OFFLINE", Role.OFFLINE)
