"""The tree of backups: place, topic, partition, segment; each branch looked up when it is opened.

Each branch is looked up in its own thread, for which nothing waits: a disk that hangs blocks its
branch alone.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import ClassVar

from textual import on
from textual.binding import Binding, BindingType
from textual.widget import Widget
from textual.widgets import Input

from breakglass.screens.browse.branches import Branch, Key, Tree, address_of, branch_facts, columns
from breakglass.screens.browse.reader import BranchRead
from breakglass.screens.context import Context
from breakglass.screens.messages import BrowseAsked, CopyAsked
from breakglass.screens.page import FilteredPage, FilterField
from breakglass.screens.refreshing import in_words
from breakglass.screens.widgets.dialog import Prompt
from breakglass.screens.widgets.facts import Fact, Facts
from breakglass.screens.widgets.line_table import LineTable
from breakglass.screens.widgets.status_bar import LinePart
from breakglass.services.browse.tree import TopicNode, partitions_in, topics_at
from breakglass.services.divergence.address import FORMS, SourceAddress, parse_address
from breakglass.services.divergence.opening import refusal
from breakglass.services.errors import UsageError
from breakglass.services.model import Unknown
from breakglass.themes.roles import Role

NO_PLACES = "No place of backups is named (--store URL). o opens a source by its address."


class BrowseScreen(FilteredPage):
    """Leads from places to records, and to two sources side by side."""

    TITLE = "Browse"
    ABOUT = (
        "What backups contain, from the store down to the segment. Enter on a segment, or r on a "
        "partition, shows its records. d marks a partition; d on a second partition compares the "
        f"two. o opens any source: {FORMS}."
    )
    DEFAULT_CSS = """
    BrowseScreen #tree { height: 1fr; }
    BrowseScreen #about { border-top: solid $border-blurred; max-height: 40%; }
    """
    BINDINGS: ClassVar[list[BindingType]] = [
        Binding("r", "records", "records", tooltip="The records of the partition"),
        Binding(
            "d", "compare", "compare", tooltip="Mark a partition; on a second one, compare the two"
        ),
        Binding("o", "open_address", "open", tooltip="Open a source by its address"),
        Binding("slash", "filter", "filter", key_display="/", tooltip="Filter topics by words"),
        Binding("right", "open(True)", "Open", show=False),
        Binding("left", "open(False)", "Close", show=False),
        Binding("y", "copy", "Copy address", show=False),
        Binding("escape", "back", "Clear filter or mark", show=False),
    ]

    def __init__(self, context: Context) -> None:
        super().__init__(context)
        self._tree = Tree()
        self._words = ""
        self._left: SourceAddress | None = None
        """What the next one is to be compared with."""
        self._began = False

    def body(self) -> Iterator[Widget]:
        yield Facts(id="looking")
        yield FilterField("words in topics")
        yield LineTable[Branch](columns(), lambda branch: branch.key, id="tree", empty=NO_PLACES)
        yield Facts(id="about")

    def on_mount(self) -> None:
        self._table.focus()

    def show_known(self) -> None:
        """Places are those of the backups' watch; the first look opens them."""
        places = tuple(place.url for place in self.context.backups.standing.places)
        if places != self._tree.places:
            self._tree.places = places
            if not self._began:
                self._began = True
                for url in places:
                    self._open((url,))
            self._show()

    def tick(self) -> None:
        self.show_known()

    def action_ask_refresh(self) -> None:
        self._tree.forget()
        for key in sorted(self._tree.opened):
            self._look_up(key)
        self._show()
        super().action_ask_refresh()

    # The tree.

    @on(LineTable.Chosen, "#tree")
    def _chosen(self, message: LineTable.Chosen) -> None:
        branch: Branch = message.row
        if branch.opened is None:
            self.action_records()
        else:
            self.action_open(not branch.opened)

    @on(LineTable.Moved, "#tree")
    def _moved(self) -> None:
        self._tell()

    def action_open(self, opened: bool) -> None:
        """Open or close what the cursor is on, or in."""
        branch = self._table.current
        if branch is None:
            return
        key = branch.key
        if not opened and branch.opened is not True:
            key = key[:-1] or key
        if opened:
            self._open(key)
        else:
            self._tree.opened.discard(key)
        self._show()
        self._table.move_to(key)

    def _open(self, key: Key) -> None:
        self._tree.opened.add(key)
        self._look_up(key)

    def _look_up(self, key: Key) -> None:
        """Look up what is below *key*, unless that is known or under way."""
        tree = self._tree
        if len(key) > 2 or tree.known(key) or key in tree.reading:
            return
        tree.reading.add(key)
        # A daemon: nobody can end a thread that a hung disk keeps, nor has to wait for it.
        threading.Thread(target=self._read, args=(key,), name="browse", daemon=True).start()

    def _read(self, key: Key) -> None:
        """In a thread of its own."""
        found: object
        try:
            found = topics_at(key[0]) if len(key) == 1 else partitions_in(TopicNode(*key))
        except Exception as error:  # noqa: BLE001 -- a thread ends here, the screen shows it
            found = Unknown(in_words(error, "it cannot be read"))
        self.post_message(BranchRead(key, found))

    @on(BranchRead)
    def _branch_read(self, message: BranchRead) -> None:
        self._tree.put(message.key, message.found)
        self._show()

    # Records.

    def action_records(self) -> None:
        branch = self._table.current
        address, offset = address_of(branch) if branch is not None else ("", None)
        if address:
            self.app.post_message(BrowseAsked(parse_address(address), offset=offset))

    def action_compare(self) -> None:
        branch = self._table.current
        text, _ = address_of(branch) if branch is not None else ("", None)
        if text:
            self._compare(parse_address(text))

    def _compare(self, address: SourceAddress) -> None:
        if self._left is None or self._left == address:
            self._left = None if self._left == address else address
            self._tell()
            return
        why = refusal(self._left, address)
        if why:
            self.notify(f"{why}.", severity="warning", markup=False)
        else:
            self.app.post_message(BrowseAsked(self._left, address))

    def action_open_address(self) -> None:
        beside = f" beside {self._left}" if self._left is not None else ""
        prompt = Prompt(f"Open a source{beside}", about=FORMS, fault=_fault)
        self.app.push_screen(prompt, self._open_given)

    def _open_given(self, text: str | None) -> None:
        if not text:
            return
        address = parse_address(text.strip())
        if self._left is not None:
            self._compare(address)
        else:
            self.app.post_message(BrowseAsked(address))

    def action_copy(self) -> None:
        branch = self._table.current
        text, _ = address_of(branch) if branch is not None else ("", None)
        if text:
            self.app.post_message(CopyAsked(text, "the address"))

    # How it is looked at.

    @on(Input.Changed, "#filter")
    def _filter_written(self, message: Input.Changed) -> None:
        self._words = message.value
        self._show()

    def action_back(self) -> None:
        """Empty the filter, leave its field, or forget what was marked to compare with."""
        if self.filter_input.value or self.filtering:
            super().action_back()
        else:
            self._left = None
            self._tell()

    @property
    def listed(self) -> Widget:
        return self._table

    @property
    def _table(self) -> LineTable[Branch]:
        return self.query_one("#tree", LineTable)

    def _show(self) -> None:
        self._table.set_rows(self._tree.lines(self._words))
        self._tell()

    def _tell(self) -> None:
        self.query_one("#looking", Facts).facts = tuple(self._looking())
        self.query_one("#about", Facts).facts = tuple(branch_facts(self._table.current))

    def _looking(self) -> Iterator[Fact]:
        if self._left is not None:
            told = f"{self._left} (d or o on another compares; Esc forgets it)"
            yield Fact("Compare", (LinePart(told, Role.MARKED),))
        if self._words:
            yield Fact("Shown", (LinePart(f"filter: {self._words}", Role.DIFFERENT),))


def _fault(text: str) -> str:
    """What is wrong with an address; empty where nothing is, or nothing is written yet."""
    if not text.strip():
        return ""
    try:
        parse_address(text.strip())
    except UsageError as error:
        return str(error)
    return ""
