"""The console of one browser page: its own process, read-only, and with no way to a file.

Whoever sees it may look, filter and sort. Everything else that has a key on a terminal answers
here that it has none: what changes the cluster, and what reads or writes the operator's files.
"""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Mapping
from typing import Any

from textual.dom import DOMNode
from textual.driver import Driver
from textual.drivers.web_driver import WebDriver
from textual.events import Key
from textual.message import Message
from textual.messages import ExitApp
from typing_extensions import override

from breakglass.console.app import BreakglassApp
from breakglass.console.console import make_context
from breakglass.console.exits import guarded
from breakglass.console.key_order import wait_until_settled
from breakglass.console.look import LookOptions, colors_left_to_the_theme, decide_look
from breakglass.console.on_terminal import leave, run_in_loop
from breakglass.console.wiring import Connection
from breakglass.services.connection.profiles import default_folder
from breakglass.services.connection.sources import ConnectionOptions

VARIABLE = "BREAKGLASS_WEB_SESSION"
"""Holds what the server tells this process, as JSON."""
ANSWER = "This dashboard is read-only: open `breakglass` on a terminal for that."
SHOWN = frozenset(("overview", "offline"))
"""The screens that are here."""
HARMLESS = frozenset(
    (
        *("ask_refresh", "back", "choose", "command_palette", "copy", "dismiss", "filter"),
        *("focus_next", "focus_previous", "forecast", "help", "help_quit", "interval", "jump"),
        *("mark", "move", "page", "quit", "show_all", "sort", "switch", "unmark_all"),
    )
)
"""The actions of those screens that look and do not touch."""


class WebConsole(BreakglassApp):
    """The console without anything but looking."""

    @override
    def get_driver_class(self) -> type[Driver]:
        return BrowserDriver

    @override
    def check_action(self, action: str, parameters: tuple[object, ...]) -> bool | None:
        """Whoever sees a page does not take note for the operators."""
        return action != "acknowledge" and super().check_action(action, parameters)

    @override
    async def run_action(
        self,
        action: Any,
        default_namespace: DOMNode | None = None,
        namespaces: Mapping[str, DOMNode] | None = None,
    ) -> bool:
        """Run what looks; answer anything else."""
        target, name, parameters = self._parse_action(action, default_namespace or self, namespaces)
        if _permitted(target, name, parameters):
            return await super().run_action(action, default_namespace, namespaces)
        self.notify(ANSWER, severity="warning", markup=False)
        return True


def _permitted(target: DOMNode, name: str, parameters: tuple[object, ...]) -> bool:
    if name == "show":
        return parameters[0] in SHOWN
    if name == "open":
        # A group of partitions, rather than a file.
        return len(parameters) == 1 and isinstance(parameters[0], bool)
    # A field that is typed into, a list that scrolls.
    of_textual = type(target).__module__.startswith("textual.")
    return of_textual or name in HARMLESS


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
    connection: Connection, gone: tuple[int, ...], theme: str | None
) -> dict[str, str]:
    """Return the environment that tells a session what to show."""
    options = connection.options
    said = {
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
    context = make_context(connection, said["gone"], look)
    with colors_left_to_the_theme():
        app = WebConsole(context, theme=look.theme, themes=look.themes)
    try:
        code = run_in_loop(app, mouse=True)
    finally:
        context.close()
    leave(code)


if __name__ == "__main__":
    sys.exit(guarded(main))
