"""What the last session did not finish: shown once at the start, with a way to resume it."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from rich.console import RenderableType
from rich.text import Text
from textual.binding import Binding, BindingType

from breakglass.screens.messages import ResumeAsked
from breakglass.screens.widgets.dialog import Overlay
from breakglass.services.recovery.timeline.account import Brief, ExecutionState, Shelf, words_of
from breakglass.services.words.inert import bounded, inert
from breakglass.services.words.moments import time_text
from breakglass.themes.roles import Role, role_style

if TYPE_CHECKING:
    from collections.abc import Iterator

LONGEST = 300
STOPPED = "An election was interrupted."
CHANGED = "A topic's setting was changed, and is still to be put back."
UNSURE = "An election ended, but some outcomes are unknown."


def unfinished(cluster_id: str, folder: Path | None = None) -> tuple[Brief, ...]:
    """Journals of that cluster that do not run and left something open, newest first.

    They did not come to their end, or it is not known of some partition how it ended.
    """
    told = Shelf(folder).briefs([cluster_id])
    return tuple(
        brief
        for brief in told
        if isinstance(brief, Brief)
        and brief.resumable
        and (brief.state is ExecutionState.INTERRUPTED or brief.unknown)
    )


class UnfinishedScreen(Overlay):
    """Where the newest of *briefs* stopped. Enter looks at what is left; nothing is sent."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "look", "Look at what is left"),
        Binding("escape,q", "dismiss", "Later"),
    ]

    def __init__(self, briefs: tuple[Brief, ...]) -> None:
        super().__init__()
        self._briefs = briefs

    def action_look(self) -> None:
        self.dismiss()
        first = self._briefs[0]
        self.app.post_message(ResumeAsked(first.path, first.owes > 0))

    def content(self) -> RenderableType:
        interrupted = self._briefs[0].state is ExecutionState.INTERRUPTED
        stopped = CHANGED if self._briefs[0].owes else STOPPED
        title = Text(stopped if interrupted else UNSURE, role_style(self.app, Role.HEADING))
        for line in unfinished_told(self._briefs):
            title.append(f"\n{inert(bounded(line, LONGEST))}", "")
        keys = role_style(self.app, Role.KEY)
        title.append("\n\nEnter", keys).append(" looks at what is left; nothing is sent yet.   ")
        return title.append("Esc", keys).append(" later, from the Journal (4).")


def unfinished_told(briefs: tuple[Brief, ...]) -> Iterator[str]:
    """Who began the newest, when, how far it came, and how many others there are."""
    first = briefs[0]
    begun = f"{first.who} began it at {time_text(first.opened_at_ms)}"
    yield f"{begun}: {first.what}."
    yield f"It came this far: {words_of(first.counts) or 'nothing was sent'}."
    if first.unknown:
        yield f"For {first.unknown:,} it is unknown whether a step happened."
    if len(briefs) > 1:
        yield f"{len(briefs) - 1:,} more are in the Journal."
