"""The modes of the console, the screen that each begins with, and what the palette finds there."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any

from textual.app import App, SystemCommand
from textual.binding import Binding
from textual.screen import Screen

if TYPE_CHECKING:
    from breakglass.screens.backups import BackupsScreen
    from breakglass.screens.browse.screen import BrowseScreen
    from breakglass.screens.checkpoints import CheckpointsScreen
    from breakglass.screens.context import Context
    from breakglass.screens.journal.screen import JournalScreen
    from breakglass.screens.metastore import MetastoreScreen
    from breakglass.screens.offline.screen import OfflineScreen
    from breakglass.screens.overview import OverviewScreen
    from breakglass.screens.plan.screen import PlanScreen

    MainScreen = (
        OverviewScreen
        | OfflineScreen
        | PlanScreen
        | JournalScreen
        | BackupsScreen
        | BrowseScreen
        | MetastoreScreen
        | CheckpointsScreen
    )

MODES = {
    "overview": "breakglass.screens.overview:OverviewScreen",
    "offline": "breakglass.screens.offline.screen:OfflineScreen",
    "plan": "breakglass.screens.plan.screen:PlanScreen",
    "journal": "breakglass.screens.journal.screen:JournalScreen",
    "backups": "breakglass.screens.backups:BackupsScreen",
    "browse": "breakglass.screens.browse.screen:BrowseScreen",
    "metastore": "breakglass.screens.metastore:MetastoreScreen",
    "checkpoints": "breakglass.screens.checkpoints:CheckpointsScreen",
}
"""The main screens by the name of their mode; imported when first shown."""
FIRST_MODE = "offline"
_NO_COMMANDS = frozenset(
    (
        "command_palette",
        *(binding.action for binding in Screen.BINDINGS if isinstance(binding, Binding)),
    )
)
"""Actions that make sense by their keys only."""


def class_at(place: str) -> Any:
    """The class at ``module:name``, which is imported now."""
    module, _, name = place.partition(":")
    return getattr(import_module(module), name)


def screen_at(place: str, context: Context) -> MainScreen:
    """A screen of the class at *place*."""
    made: MainScreen = class_at(place)(context)
    return made


def bound_commands(app: App[Any], screen: Screen[Any]) -> Iterator[SystemCommand]:
    """Everything that can be done on *screen* by a key, each action once."""
    found: set[str] = set()
    for active in screen.active_bindings.values():
        binding = active.binding
        own = isinstance(active.node, Screen | App) and binding.action not in _NO_COMMANDS
        if own and binding.description and active.enabled and binding.action not in found:
            found.add(binding.action)
            run = partial(app.run_action, binding.action, active.node)
            about = f"key {app.get_key_display(binding)}"
            if active.tooltip:
                about = f"{active.tooltip} ({about})"
            yield SystemCommand(binding.description, about, run)
