"""What becomes of offline partitions if nobody intervenes, and whom to start."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import ClassVar

from textual.app import ComposeResult
from textual.binding import Binding, BindingType
from textual.containers import Vertical
from textual.screen import ModalScreen

from breakglass.screens.widgets.replica_table import Line, ReplicaTable, reason_lines
from breakglass.services.incident.listing import Forecast, Outlook, forecast_of
from breakglass.services.incident.row import IncidentRow, name_text
from breakglass.services.recovery.judgement.succession import IF_AS_IT_WAS
from breakglass.themes.roles import Role, Words

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
