"""The plan in files: saved, opened, and edited as text."""

from __future__ import annotations

import os
import shlex
import shutil
import signal
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, ClassVar

from textual import on
from textual.app import SuspendNotSupported
from textual.binding import Binding, BindingType
from textual.widget import Widget

from breakglass.screens.plan.asking import may_discard
from breakglass.screens.plan.messages import DraftChanged, FormFaulty, FormReady
from breakglass.screens.widgets.dialog import Dialog, Prompt
from breakglass.screens.widgets.line_columns import Cell, LineColumn
from breakglass.screens.widgets.line_table import LineTable
from breakglass.services.connection.secret import without_secrets
from breakglass.services.errors import BreakglassError, StorageError, UsageError
from breakglass.services.regular_file import read_regular

if TYPE_CHECKING:
    from textual.message import Message

    from breakglass.screens.plan.messages import Editing
    from breakglass.services.recovery.plan.draft import Draft
    from breakglass.services.recovery.plan.read_back import Problem


FALLBACKS = ("sensible-editor", "vi", "nano")
"""Tried where neither VISUAL nor EDITOR is set."""
GO_TO_LINE = {
    *("vi", "vim", "nvim", "vim.tiny", "vim.basic", "view", "nano", "pico", "emacs"),
    *("emacsclient", "joe", "jed", "mg", "micro", "ne"),
}
"""Editors that take ``+12``."""
LARGEST = 256_000_000
"""Bytes of an edited file that are read back."""

MOST_BYTES = 1024 * 1024 * 1024
"""No such file is larger."""


def editor_command(environ: Mapping[str, str] = os.environ) -> list[str]:
    """The operator's editor as words of a command.

    Raises UsageError: none is named that exists, and none is found.
    """
    named = environ.get("VISUAL") or environ.get("EDITOR")
    if not named:
        found = next((editor for editor in FALLBACKS if shutil.which(editor)), None)
        if found is None:
            raise UsageError("No editor was found: set EDITOR to your editor.")
        return [found]
    try:
        words = shlex.split(named)
    except ValueError as error:
        raise UsageError(f"EDITOR is no command ({error}): set it to your editor.") from error
    if not words or shutil.which(words[0]) is None:
        raise UsageError(f"The editor {named!r} was not found: set EDITOR to an installed editor.")
    return words


def edited(
    text: str, line: int, terminal: Callable[[], AbstractContextManager[None]]
) -> str | None:
    """*text* as the operator's editor left it, begun at *line*; None if it was not changed.

    *terminal* gives the terminal over for as long as the editor runs.

    Raises:
        UsageError: there is no editor, or it failed.
        StorageError: the text cannot be written or read back.
    """
    command = editor_command()
    with tempfile.TemporaryDirectory(prefix="breakglass-plan-") as folder:
        path = Path(folder, "plan.json")
        try:
            path.touch(mode=0o600)
            path.write_text(text, encoding="utf-8")
        except OSError as error:
            raise StorageError(
                f"{path} cannot be written ({error.strerror}): make room there or set TMPDIR."
            ) from error
        at = [f"+{line}"] if Path(command[0]).name in GO_TO_LINE else []
        with terminal(), _interrupts_are_the_editors():
            code = _run([*command, *at, str(path)])
        if code:
            raise UsageError(f"{command[0]} ended with {code}, so its text was not used.")
        after = _read(path)
    return None if after == text else after


def _run(command: list[str]) -> int:
    try:
        return subprocess.run(command, env=without_secrets(os.environ), check=False).returncode
    except OSError as error:
        raise UsageError(f"{command[0]} cannot be run ({error.strerror}): set EDITOR.") from error


def _read(path: Path) -> str:
    try:
        if path.stat().st_size > LARGEST:
            raise UsageError("The edited file is far too large to be a plan.")
        return read_regular(path, MOST_BYTES).decode("utf-8-sig")
    except OSError as error:
        raise StorageError(
            f"The edited file cannot be read ({error.strerror}): edit it again."
        ) from error
    except UnicodeDecodeError as error:
        raise UsageError(
            f"The edited file is not UTF-8 at byte {error.start}: edit it again."
        ) from error


@contextmanager
def _interrupts_are_the_editors() -> Iterator[None]:
    """Ctrl+C reaches the whole job: while the editor has the terminal it does not end us.

    Ignored and not handled, for a handler would still wake the loop's own. An editor that goes
    by this signal sets it for itself.
    """
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)


class ProblemsDialog(Dialog[int]):
    """Ends with the line to edit again at, or None: the text is dropped."""

    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("enter", "choose", "Edit again at this line"),
        Binding("escape", "leave", "Discard the text"),
    ]

    def __init__(self, problems: Sequence[Problem]) -> None:
        number = len(problems)
        super().__init__(f"The text is not a valid plan: {number:,} fault{'s' * (number != 1)}")
        self._problems = problems

    def body(self) -> Iterator[Widget]:
        columns = (
            LineColumn["Problem"]("Line", lambda problem: Cell(f"{problem.line}"), right=True),
            LineColumn["Problem"]("Col", lambda problem: Cell(f"{problem.column}"), right=True),
            LineColumn["Problem"](
                "What", lambda problem: Cell(problem.what), most=200, shrinks=True
            ),
        )
        yield LineTable(columns, lambda problem: (problem.line, problem.column, problem.what))

    def on_mount(self) -> None:
        table: LineTable[Problem] = self.query_one(LineTable)
        table.set_rows(self._problems)
        table.focus()
        self.say(str(self._problems[0]))

    @on(LineTable.Moved)
    def _moved(self, message: LineTable.Moved) -> None:
        self.say(str(message.row))

    @on(LineTable.Chosen)
    def _chosen(self, message: LineTable.Chosen) -> None:
        self.dismiss(message.row.line)

    def action_choose(self) -> None:
        self.query_one(LineTable).action_choose()


NO_TERMINAL = (
    "There is no terminal here for an editor: save the plan (s), edit the file, open it (o)."
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
            about="An existing file is never overwritten, except the plan's own.",
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
        Prompt(
            "Open which plan?",
            about="A Breakglass plan, or a file in Kafka's format.",
            fault=_no_name,
        )
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
            screen.say("The text was not edited: the plan is unchanged.")
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
        screen.say("The text was discarded; the plan is unchanged.")
    else:
        edit_text(screen, text, line)


def new_name() -> str:
    """A name for a new file: ``plan-20231114-221320.json``."""
    return f"plan-{datetime.now(UTC):%Y%m%d-%H%M%S}.json"


def _path(given: str) -> Path:
    return Path(given.strip()).expanduser()


def _no_name(text: str) -> str:
    return "" if text.strip() else "Give the file a name."
