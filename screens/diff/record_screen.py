"""One record as both replicas have it: every field, and what differs to the character."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from breakglass.screens.context import Context
from breakglass.screens.diff.reader import ReplicaReader
from breakglass.screens.diff.record_page import FOLD, REASON_LENGTH, RecordPage
from breakglass.screens.diff.rows import about
from breakglass.screens.diff.task import Task
from breakglass.services.divergence.align import RecordPair
from breakglass.services.divergence.replicas import Facing
from breakglass.services.words.inert import bounded
from breakglass.services.words.record_text import TextForm
from breakglass.themes.roles import Role, role_style


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
