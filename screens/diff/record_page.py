"""One record of one side or both: what was listed at once, all of it as soon as it is read."""

from __future__ import annotations

from collections.abc import Iterator
from typing import ClassVar

from rich.text import Text
from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Static

from breakglass.screens.context import Context
from breakglass.screens.diff.reader import (
    ComparisonFailed,
    RecordRead,
    ReplicaReader,
    Task,
    TaskEnded,
)
from breakglass.screens.diff.record_view import RecordView
from breakglass.screens.diff.rows import about
from breakglass.screens.page import Page
from breakglass.services.divergence.align import RecordPair
from breakglass.services.divergence.replicas import Facing
from breakglass.services.words.inert import bounded
from breakglass.services.words.record_text import TextForm
from breakglass.themes.roles import Role, role_style

REASON_LENGTH = 400
FOLDS: tuple[int | None, ...] = (None, 1, 2, 3)
"""How many levels of JSON are shown, in turn."""

FOLD = Binding("z", "fold", "fold", tooltip="Show all levels of JSON, or the first 1, 2 or 3")
"""For the subclasses, whose page offers it."""


class RecordPage(Page):
    """Every field of a record; subclasses read it and say whose it is."""

    TITLE = "Record"
    GONE = "This record no longer exists: press Esc, then ctrl+r."
    CSS = """
    #record-heading { max-height: 4; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding(
            "escape", "back", "Back", tooltip="Stop reading; when nothing is read, back to the list"
        ),
        Binding("v", "form", "view", tooltip="As text, JSON or hex in turn"),
    ]

    def __init__(
        self, context: Context, pair: RecordPair, form: TextForm, *, single: bool = False
    ) -> None:
        super().__init__(context)
        self._pair, self._form, self._single = pair, form, single
        self._depth = 0
        """Which of `FOLDS`."""
        self._decoded: RecordPair | None = None
        """With keys and values decoded by a schema; shown in place of the bytes."""
        self._note = ""
        """By which schema."""
        self._as_decoded = True
        self._awaited: Task | None = None
        self._said = ""

    @property
    def busy(self) -> bool:
        """The record is being read."""
        return self._awaited is not None

    def read_record(self) -> Task:
        """Begin to read all of it; `RecordRead` tells."""
        raise NotImplementedError

    def heading(self, pair: RecordPair, form: str) -> Text:
        """Whose record it is, how its sides compare, and as what it is shown."""
        raise NotImplementedError

    def body(self) -> Iterator[Widget]:
        yield Static(id="record-heading", markup=False)
        yield RecordView(single=self._single)

    def on_mount(self) -> None:
        self._draw()
        self.query_one(RecordView).focus()
        self._awaited = self.read_record()
        self._draw_heading()

    def on_unmount(self) -> None:
        if self._awaited is not None:
            self._awaited.abandon()

    def on_resize(self) -> None:
        self._draw_heading()

    def action_back(self) -> None:
        if self._awaited is None:
            self.dismiss()
            return
        self._awaited.abandon()
        self._awaited = None
        self._said = "Stopped: only the beginning is shown."
        self._draw_heading()

    def action_form(self) -> None:
        """The next form; what a schema decoded comes before the others."""
        last = self._form is tuple(TextForm)[-1]
        if self._shows_decoded:
            self._as_decoded, self._form = False, TextForm.TEXT
        elif self._decoded is not None and last:
            self._as_decoded = True
        else:
            self._form = self._form.next
        self._draw()

    def action_fold(self) -> None:
        self._depth = (self._depth + 1) % len(FOLDS)
        if not self._shows_decoded:
            self._form = TextForm.JSON
        self._draw()

    @on(RecordRead)
    def _record_read(self, message: RecordRead) -> None:
        if message.task is not self._awaited:
            return
        self._note = message.note
        if message.pair is None:
            self._said = self.GONE
        else:
            self._pair, self._decoded = message.pair, message.decoded
        self._draw()

    @on(ComparisonFailed)
    def _failed(self, message: ComparisonFailed) -> None:
        if message.task is self._awaited:
            self._said = str(message.error)

    @on(TaskEnded)
    def _ended(self, message: TaskEnded) -> None:
        if message.task is self._awaited:
            self._awaited = None
            self._draw_heading()

    @property
    def _shows_decoded(self) -> bool:
        return self._decoded is not None and self._as_decoded

    def _draw(self) -> None:
        view = self.query_one(RecordView)
        view.fold(FOLDS[self._depth])
        if self._decoded is not None and self._as_decoded:
            view.show(self._decoded, TextForm.JSON)
        else:
            view.show(self._pair, self._form)
        self._draw_heading()

    def _draw_heading(self) -> None:
        depth = FOLDS[self._depth]
        folded = "" if depth is None else f", {depth} level{'s' * (depth != 1)}"
        form = bounded(self._note, REASON_LENGTH) if self._shows_decoded else str(self._form)
        text = self.heading(self._pair, form + folded)
        if self._awaited is not None:
            doing = f"\n {self._awaited.doing}. Esc stops it."
            text.append(doing, role_style(self.app, Role.RUNNING))
        elif self._said or (self._note and self._decoded is None):
            said = bounded(self._said or self._note, REASON_LENGTH)
            text.append(f"\n {said}", role_style(self.app, Role.UNKNOWN))
        heading = self.query_one("#record-heading", Static)
        # Textual measures a height of its own choice once for all updates that wait for a layout.
        heading.styles.height = text.plain.count("\n") + 1
        heading.update(text)


class RecordScreen(RecordPage):
    """A record of two replicas."""

    ABOUT = (
        "One record as both replicas have it. In front of each line: = the same, ! different, "
        "< only on the left, > only on the right, ? not read."
    )
    BINDINGS: ClassVar[list[BindingType]] = [FOLD]
    GONE = "Neither replica has this record any more: press Esc, then ctrl+r."

    def __init__(
        self,
        context: Context,
        reader: ReplicaReader,
        facing: Facing,
        pair: RecordPair,
        form: TextForm,
    ) -> None:
        super().__init__(context, pair, form)
        self._reader, self._facing = reader, facing

    def read_record(self) -> Task:
        return self._reader.record(self, self._facing, self._pair.offset)

    def heading(self, pair: RecordPair, form: str) -> Text:
        facing = self._facing
        text = Text(" ", no_wrap=True, overflow="ellipsis")
        text.append(bounded(str(facing.partition), 60), role_style(self.app, Role.HEADING))
        text.append(f"  < b{facing.left.broker}  > b{facing.right.broker}  as {form}\n ")
        return text.append(bounded(about(pair, facing, letters=False), REASON_LENGTH))
