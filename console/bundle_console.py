"""The console on a bundle: the same screens, with all that needs a cluster greyed and answered.

What is offered is listed here, so that a new key of a screen is off until somebody adds it. There
is no power and no access in its context either: see `services.bundle.contents`.
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from textual import on
from textual.dom import DOMNode
from typing_extensions import override

from breakglass.console.app import LimitedConsole
from breakglass.screens.context import NEVER, Context, Known
from breakglass.screens.messages import BrowseAsked, ElectionAsked, ResumeAsked
from breakglass.services.bundle.contents import (
    BundledBackupWatch,
    BundleWatch,
    OpenedBundle,
    monitor_of,
    no_access,
    unpack_state,
)

if TYPE_CHECKING:
    from breakglass.console.look import Look
    from breakglass.screens.context import Context
    from breakglass.services.bundle.contents import BundleContents

ANSWER = (
    "A bundle: save a plan (p, s), run `breakglass recover` on the cluster.",
    "Nothing is asked or changed here.",
)
SHOWN = frozenset(("overview", "offline", "plan", "journal", "backups"))
"""The screens that a bundle has something for."""
OFFERED = frozenset(
    (
        # Looking.
        *("back", "choose", "command_palette", "copy", "copy_text", "dismiss", "filter", "find"),
        *("focus_next", "focus_previous", "forecast", "help", "help_quit", "jump", "leave", "look"),
        *("mark", "mark_all", "move", "next_kind", "offline", "open", "page", "page_down"),
        *("page_up", "quit", "scroll_down", "scroll_up", "show_all", "sort", "switch"),
        *("suspend_process", "unmark_all", "screenshot", "change_theme"),
        # Judging again, and comparing by the records that were captured.
        *("gone", "diff", "ask_offset", "count", "divergence", "end", "fold", "form", "other"),
        *("search", "swap"),
        # Plans, which are files.
        *("plan", "make", "approve", "edit_text", "leader", "leave_out", "notes", "out_or_in"),
        *("redo", "undo", "rules", "save", "go_on", "remove", "write"),
    )
)
"""The actions that need no more than the bundle."""


class BundleConsole(LimitedConsole):
    """The console on the bundle of its context."""

    OFFERED = OFFERED

    @override
    def offers(self, target: DOMNode, name: str, parameters: tuple[object, ...]) -> bool:
        if name == "show":
            return parameters[0] in SHOWN
        return super().offers(target, name, parameters)

    @override
    def decline(self) -> None:
        self._say_below(*ANSWER)

    @override
    def _check_action_state(self, action: str, default_namespace: DOMNode) -> bool | None:
        """What is not offered is greyed, wherever it is bound."""
        state = super()._check_action_state(action, default_namespace)
        target, name, parameters = self._parse_action(action, default_namespace)
        return None if state and not self.offers(target, name, parameters) else state

    @on(BrowseAsked)
    @on(ElectionAsked)
    @on(ResumeAsked)
    def _refuse(self, message: BrowseAsked | ElectionAsked | ResumeAsked) -> None:
        """Open no address and begin no act, whatever asked for it."""
        message.prevent_default()
        self.decline()

    @override
    def _look_back(self) -> None:
        """Journals of a bundle are resumed where they were begun, and not here."""


def bundle_context(contents: BundleContents, look: Look, folder: Path) -> Context:
    """What the screens work with on a bundle, with its journals unpacked in *folder*.

    Raises StorageError: *folder* cannot be written.
    """
    from breakglass.console.checkpoint_text import CommandText

    return Context(
        no_access(),
        BundleWatch(contents, unpack_state(contents, folder)),
        look.terminal,
        CommandText(),
        state_folder=folder,
        clock=lambda: 0.0,
        known=Known(interval=NEVER),
        health=monitor_of(contents),
        backups=BundledBackupWatch(contents),
        bundle=OpenedBundle(contents),
    )
