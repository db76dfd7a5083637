"""Everything that is known of one broker: over the overview, until Esc."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import ClassVar

from rich.console import RenderableType
from rich.table import Table
from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType

from breakglass.screens.context import Context
from breakglass.screens.messages import OfflineAsked
from breakglass.screens.overview.broker_rows import BrokerRow
from breakglass.screens.overview.messages import BrokerSettingsRead
from breakglass.screens.refreshing import in_words
from breakglass.screens.widgets.overlay import Overlay
from breakglass.screens.widgets.status_bar import LinePart, age_text
from breakglass.services import patience
from breakglass.services.health.answers import LANE
from breakglass.services.kafka.cluster.broker_log_dirs import BrokerLogDir
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import Unknown
from breakglass.services.words.figures import count, shown
from breakglass.services.words.inert import bounded
from breakglass.themes.roles import Role, role_style

SETTINGS = (
    "advertised.listeners",
    "listeners",
    "process.roles",
    "log.dirs",
    "min.insync.replicas",
    "unclean.leader.election.enable",
)
LENGTH = 300
UNREAD = Unknown("they are being read")
GIGA, MEGA = 1 << 30, 1 << 20


class BrokerDetails(Overlay):
    """One broker."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("escape,enter,q", "dismiss", "Close"),
        Binding("o", "offline", "Offline partitions with a replica on it"),
    ]

    def __init__(self, context: Context, row: BrokerRow) -> None:
        super().__init__()
        self.context, self._row = context, row
        self._settings: Mapping[str, str | None] | Unknown = UNREAD

    def on_mount(self) -> None:
        self.run_worker(self._read, group="broker", thread=True, exit_on_error=False)

    def action_offline(self) -> None:
        self.app.post_message(OfflineAsked(f"broker:{self._row.id}"))
        self.dismiss()

    @on(BrokerSettingsRead)
    def _told(self, message: BrokerSettingsRead) -> None:
        self._settings = message.settings
        self.show_again()

    def _read(self) -> None:
        """In a thread: ask the broker for its settings."""
        self.post_message(BrokerSettingsRead(self._asked()))

    def _asked(self) -> Mapping[str, str | None] | Unknown:
        from breakglass.services.kafka.cluster.broker_settings import read_broker_settings

        bundle = self.context.bundle
        if bundle is not None:
            return bundle.broker_settings(self._row.id, SETTINGS)
        deadline = Deadline.after(patience.BRIEF)
        try:
            with self.context.reading() as client:
                client.describe(deadline)
                return read_broker_settings(client.sender, self._row.id, SETTINGS, deadline, LANE)
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            return Unknown(in_words(error, "its answer cannot be read"))

    def content(self) -> RenderableType:
        table = Table.grid(padding=(0, 1), expand=True)
        table.add_column(no_wrap=True)
        table.add_column(ratio=1, overflow="fold")
        heading = role_style(self.app, Role.HEADING)
        for label, part in self._lines():
            style = role_style(self.app, part.role) if part.role else ""
            table.add_row(Text(label, heading), Text(bounded(part.text, LENGTH), style))
        keys = "Esc closes, o shows its offline partitions"
        table.add_row("", Text(keys, role_style(self.app, Role.MUTED)))
        return table

    def _lines(self) -> Iterator[tuple[str, LinePart]]:
        broker, state = self._row.health, self._row.state
        yield f"Broker {broker.id}", LinePart(state.text, state.role)
        if broker.registration is not None:
            registration = broker.registration
            yield "Address", LinePart(f"{registration.host}:{registration.port}")
            yield "Rack", LinePart(registration.rack or "-")
            yield "Fenced", _fenced(registration.fenced)
        held = broker.held
        yield (
            "Replicas",
            LinePart(
                f"{count(held.replicas)}, {count(held.in_sync)} in sync, leads {count(held.leads)}"
            ),
        )
        yield from self._log_dirs()
        yield from self._told_settings()

    def _log_dirs(self) -> Iterator[tuple[str, LinePart]]:
        figure = self._row.health.voice.log_dirs
        if isinstance(figure.value, Unknown):
            yield "Log dirs", LinePart(f"? {figure.value.reason}", Role.UNKNOWN)
            return
        for number, log_dir in enumerate(figure.value):
            yield "" if number else "Log dirs", _log_dir(log_dir)
        age = age_text(figure.age_ms(self._row.now_ms) / 1_000)
        if figure.failed is not None:
            yield "", LinePart(f"STALE {age}: {figure.failed.reason}", Role.STALE)
        else:
            yield "", LinePart(f"read {age} ago", Role.MUTED)

    def _told_settings(self) -> Iterator[tuple[str, LinePart]]:
        if isinstance(self._settings, Unknown):
            yield "Settings", LinePart(f"? {self._settings.reason}", Role.UNKNOWN)
            return
        for key, value in self._settings.items():
            yield key, LinePart(shown(value))


def _fenced(fenced: bool | Unknown) -> LinePart:
    if isinstance(fenced, Unknown):
        return LinePart(f"? {fenced.reason}", Role.UNKNOWN)
    return (
        LinePart("yes: it leads nothing until it is unfenced", Role.OFFLINE)
        if fenced
        else LinePart("no")
    )


def _log_dir(log_dir: BrokerLogDir) -> LinePart:
    if not log_dir.online:
        return LinePart(f"{log_dir.path} OFFLINE: {log_dir.why_offline}", Role.OFFLINE)
    return LinePart(f"{log_dir.path}, {_free(log_dir)}")


def _free(log_dir: BrokerLogDir) -> str:
    """How much room there is; one number without the other says nothing."""
    if isinstance(log_dir.usable_bytes, Unknown) or isinstance(log_dir.total_bytes, Unknown):
        return "free space ?"
    return f"{_size(log_dir.usable_bytes)} of {_size(log_dir.total_bytes)} free"


def _size(number: int) -> str:
    return f"{number / GIGA:,.1f} GiB" if number >= GIGA else f"{number / MEGA:,.1f} MiB"
