"""The console of one browser page: its own process, read-only, and with no way to a file.

A viewer may look, filter and sort, on each of the eight screens. Everything else that has a key on
a terminal answers here that it has none: what changes the cluster, what writes files, and what
opens a file that the operator did not name. What records hold is shown only if the operator says
so. Two lists keep it so: of actions, and of the screens that may open above a main screen.
"""

from __future__ import annotations

import json
import os
import sys
from asyncio import get_running_loop
from collections.abc import Sequence
from typing import Any

from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.web_driver import WebDriver
from textual.events import Key
from textual.message import Message
from textual.messages import ExitApp
from textual.screen import Screen
from typing_extensions import override

from breakglass.console.app import LimitedConsole
from breakglass.console.console import make_context
from breakglass.console.driver import leave, run_in_loop, wait_until_settled
from breakglass.console.exits import guarded
from breakglass.console.look import LookOptions, colors_left_to_the_theme, decide_look
from breakglass.console.wiring import Connection, stores_in
from breakglass.screens.context import Context
from breakglass.services.connection.profiles import default_folder
from breakglass.services.connection.sources import ConnectionOptions

VARIABLE = "BREAKGLASS_WEB_SESSION"
"""Holds what the server tells this process, as JSON."""
ANSWER = "This dashboard is read-only: open `breakglass` on a terminal for that."
NO_RECORDS = "This dashboard shows no records: `breakglass serve --records` does."
HARMLESS = frozenset(
    (
        *("ask_refresh", "back", "choose", "command_palette", "copy", "dismiss", "filter"),
        *("focus_next", "focus_previous", "forecast", "help", "help_quit", "interval", "jump"),
        *("mark", "move", "page", "quit", "show", "show_all", "sort", "switch", "unmark_all"),
        # Plan: a plan of what is offline, which lives as long as the page.
        *("make", "next_kind"),
        # Journal, Browse, Metastore.
        *("ledger", "records", "compare", "difference", "service", "view"),
    )
)
"""The actions of the main screens that look and do not touch."""
OF_RECORDS = frozenset(("count", "end", "fold", "form", "go", "next", "search", "swap", "unmark"))
"""The actions of screens of records that look and do not touch."""
_SCREENS = "breakglass.screens."
ABOVE = frozenset(
    (
        *("help:HelpScreen", "help:LegendScreen", "journal:LedgerScreen"),
        *("journal:StoryScreen", "offline.partition:ForecastScreen"),
        *("offline.partition:PartitionScreen", "overview:BrokerDetails"),
        *("overview:TroubledScreen", "quorum:LinesScreen"),
    )
)
"""The screens that may open above a main screen, as `place_of` names them."""
ABOVE_OF_RECORDS = frozenset(("browse.records:RecordsScreen", "browse.records:OneRecordScreen"))
"""The same, of screens that show what records hold."""


def place_of(screen: Screen[Any]) -> str:
    """Where the class of *screen* is, below the folder of screens."""
    made = type(screen)
    return f"{made.__module__.removeprefix(_SCREENS)}:{made.__name__}"


class WebConsole(LimitedConsole):
    """The console without anything but looking; with *records*, at what records hold too."""

    OFFERED = HARMLESS | OF_RECORDS

    def __init__(self, context: Context, *, records: bool = False, **look: Any) -> None:
        super().__init__(context, **look)
        self._records = records

    @override
    def _look_back(self) -> None:
        """An election that stopped before its end is not offered to a viewer: see the Journal."""

    @override
    def push_screen(self, screen: Any, *given: Any, **named: Any) -> Any:
        """Open what shows; answer anything else, as if it had been left at once."""
        why = self._refusal(screen)
        if not why:
            return super().push_screen(screen, *given, **named)
        self.notify(why, severity="warning", markup=False)
        left = get_running_loop().create_future()
        left.set_result(None)
        return left

    def _refusal(self, screen: Screen[Any]) -> str:
        """Why *screen* does not open here; empty if it does."""
        place = place_of(screen)
        if place in ABOVE_OF_RECORDS:
            return "" if self._records else NO_RECORDS
        of_textual = type(screen).__module__.startswith("textual.")
        return "" if of_textual or place in ABOVE else ANSWER

    @override
    def get_driver_class(self) -> type[Driver]:
        return BrowserDriver

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """A viewer of a page does nothing for the operators: nothing says by which key."""
        own = action in ("acknowledge", "save_before_return", "copy_commanded")
        return not own and super().check_action(action, parameters)

    @override
    def offers(self, target: DOMNode, name: str, parameters: tuple[object, ...]) -> bool:
        if name == "open":
            # A group of lines, rather than a file.
            return len(parameters) == 1 and isinstance(parameters[0], bool)
        return super().offers(target, name, parameters)

    @override
    def decline(self) -> None:
        self.notify(ANSWER, severity="warning", markup=False)


class BrowserDriver(WebDriver):
    """Takes one key at a time, and ends the session when the server is gone."""

    @override
    def process_message(self, message: Message) -> None:
        super().process_message(message)
        if isinstance(message, Key):
            wait_until_settled(self._app, self._loop, self.exit_event)

    @override
    def run_input_thread(self) -> None:
        super().run_input_thread()
        if not self.exit_event.is_set():
            self.send_message(ExitApp())


def session_environment(
    connection: Connection,
    gone: tuple[int, ...],
    theme: str | None,
    stores: Sequence[str] = (),
    *,
    records: bool = False,
) -> dict[str, str]:
    """Return the environment that tells a session what to show."""
    options = connection.options
    said = {
        "stores": stores,
        "records": records,
        "options": {name: getattr(options, name) for name in ConnectionOptions.__slots__},
        "native_rpc": connection.native_rpc,
        "gone": gone,
        "theme": theme,
    }
    return {VARIABLE: json.dumps(said)}


def main() -> None:
    """Show the dashboard to the browser behind stdin and stdout."""
    said = json.loads(os.environ[VARIABLE])
    options = said["options"]
    options["broker_address"] = tuple(options["broker_address"])
    connection = Connection(ConnectionOptions(**options), said["native_rpc"])
    look = decide_look(LookOptions(said["theme"], False, True), default_folder())
    context = make_context(connection, said["gone"], look, stores_in(said["stores"]))
    with colors_left_to_the_theme():
        app = WebConsole(context, records=said["records"], theme=look.theme, themes=look.themes)
    try:
        code = run_in_loop(app, mouse=True)
    finally:
        context.close()
    leave(code)


if __name__ == "__main__":
    sys.exit(guarded(main))
