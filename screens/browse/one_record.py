"""One record, or the records of both sides at one offset, whatever they are kept in."""

from __future__ import annotations

from typing import ClassVar

from rich.text import Text
from textual.binding import BindingType

from breakglass.screens.browse.reader import BrowseReader
from breakglass.screens.browse.subject import BrowseSubject
from breakglass.screens.browse.wording import about, names_of
from breakglass.screens.context import Context
from breakglass.screens.diff.record_page import FOLD, REASON_LENGTH, RecordPage
from breakglass.screens.diff.task import Task
from breakglass.services.divergence.align import RecordPair
from breakglass.services.words.inert import bounded
from breakglass.services.words.record_text import TextForm
from breakglass.themes.roles import Role, role_style


class OneRecordScreen(RecordPage):
    """A record of one source or two."""

    ABOUT = "One record: every field; the value as text, JSON or hex, folded to some levels."
    BINDINGS: ClassVar[list[BindingType]] = [FOLD]

    def __init__(
        self,
        context: Context,
        reader: BrowseReader,
        subject: BrowseSubject,
        pair: RecordPair,
        form: TextForm,
    ) -> None:
        super().__init__(context, pair, form, single=subject.single)
        self._reader, self._subject = reader, subject

    def read_record(self) -> Task:
        schemas = self.context.schemas
        return self._reader.whole_record(self, self._subject, self._pair.offset, schemas)

    def heading(self, pair: RecordPair, form: str) -> Text:
        text = Text(no_wrap=True, overflow="ellipsis")
        for name in names_of(self._subject, self.size.width - 2):
            text.append(f" {name}\n", role_style(self.app, Role.HEADING))
        return text.append(
            f" {bounded(about(pair, self._subject, letters=False), REASON_LENGTH)}  as {form}"
        )
