"""The plan in files: saved, opened, and edited as a text."""

from __future__ import annotations

from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

from textual.app import SuspendNotSupported

from breakglass.screens.plan.asking import may_discard
from breakglass.screens.plan.editor import edited
from breakglass.screens.plan.messages import DraftChanged, FormFaulty, FormReady
from breakglass.screens.plan.problems_dialog import ProblemsDialog
from breakglass.screens.widgets.prompt import Prompt
from breakglass.services.errors import BreakglassError

if TYPE_CHECKING:
    from textual.message import Message

    from breakglass.screens.plan.editing import Editing
    from breakglass.services.recovery.plan.draft import Draft
    from breakglass.services.recovery.plan.read_back import Problem

NO_TERMINAL = (
    "There is no terminal here to hand over to an editor: save it (s), edit the file, open it (o)."
)


async def save(screen: Editing) -> None:
    """Ask for a file's name and write the plan there."""
    from breakglass.screens.plan import acts

    view = screen.view
    if view is None:
        return
    opened = view.draft.opened
    given = await screen.app.push_screen_wait(
        Prompt(
            "Save the plan to which file?",
            about="A file that is there already is kept, unless it is the plan's own.",
            value=str(opened.path) if opened else new_name(),
            fault=_no_name,
        )
    )
    if given is not None:
        path = _path(given)
        screen.desk.change(lambda draft: acts.save(draft, path))


async def open_file(screen: Editing) -> None:
    """Ask for a file's name and take the plan in it."""
    if not await may_discard(screen):
        return
    given = await screen.app.push_screen_wait(
        Prompt("Open which plan?", about="One of ours, or a file in Kafka's form.", fault=_no_name)
    )
    if given is None:
        return
    path = _path(given)

    def act(_: Draft | None) -> tuple[Draft, str]:
        from breakglass.screens.plan import acts

        return acts.open_file(path)

    screen.rest_on_nothing()
    screen.desk.begin(act)


def write_out(screen: Editing) -> None:
    """Write the plan out as a text; `FormReady` brings it."""

    def job(draft: Draft | None) -> Message:
        from breakglass.screens.plan import acts

        assert draft is not None, "the key is off without a plan"
        return FormReady(acts.write_out(draft))

    screen.desk.ask(job)


def edit_text(screen: Editing, text: str, line: int) -> None:
    """Give the terminal to the operator's editor until the text is edited, and take it back."""
    try:
        after = edited(text, line, screen.app.suspend)
    except SuspendNotSupported:
        screen.say(NO_TERMINAL, failed=True)
    except BreakglassError as error:
        screen.say(str(error), failed=True)
    else:
        if after is None:
            screen.say("The text was not changed, and neither is the plan.")
        else:
            _take_back(screen, after)


def _take_back(screen: Editing, text: str) -> None:
    def job(draft: Draft | None) -> Message:
        from breakglass.screens.plan import acts
        from breakglass.screens.plan.viewing import view_of

        assert draft is not None, "there was one to be edited"
        found = acts.take_back(draft, text)
        if isinstance(found, list):
            return FormFaulty(text, found)
        after, said = found
        return DraftChanged(view_of(after), said)

    screen.desk.ask(job)


async def mend(screen: Editing, text: str, problems: Sequence[Problem]) -> None:
    """Show what is wrong with *text*; it is edited again at the line that is chosen."""
    line = await screen.app.push_screen_wait(ProblemsDialog(problems))
    if line is None:
        screen.say("The text was dropped; the plan is as it was.")
    else:
        edit_text(screen, text, line)


def new_name() -> str:
    """A name for a new file: ``plan-20231114-221320.json``."""
    return f"plan-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"


def _path(given: str) -> Path:
    return Path(given.strip()).expanduser()


def _no_name(text: str) -> str:
    return "" if text.strip() else "Give the file a name."
