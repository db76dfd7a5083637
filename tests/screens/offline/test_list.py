"""The list: what cannot wait first, groups that open, a cursor that stays on its partition; marks,
filters, and what is asked for of what is marked, rescues among it.
"""

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest
from textual.widgets import Input

from breakglass.screens.help import HelpScreen
from breakglass.screens.messages import CopyAsked, DiffAsked, ElectionAsked, OfflineAsked, PlanAsked
from breakglass.screens.offline import partition_list
from breakglass.screens.offline.partition import PartitionScreen
from breakglass.screens.offline.rescue import RescueScreen, fault_in, folders_in, prepare
from breakglass.screens.terminal import Terminal
from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.errors import TimedOut
from breakglass.services.incident.listing import RowOrder, listing
from breakglass.services.incident.row import IncidentRow
from breakglass.services.model import Silent, TopicPartition
from breakglass.services.recovery.rescue import rescue
from breakglass.services.recovery.rescue.spans import (
    AtRisk,
    RescuedPartition,
    RescueProgress,
    Saved,
    Span,
)
from breakglass.services.words.figures import brokers_in
from tests.kit.incidents import (
    LEDGER,
    bomb,
    diverged_incident,
    every_verdict,
    half_heard,
    hostile_names,
    incident_of,
    lossless,
    nothing_offline,
    unread,
    waiting,
)
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.consoles import console_on, watch_of
from tests.screens.drawing import at_rest
from tests.screens.offline.offline_console import opened
from tests.screens.turns import is_inert, shows

SILENCE = TimedOut("no broker answers: check the address", "silence")
GROUPS = [
    "▸carts-0..2 (3)",
    "__consumer_offsets-7",
    "stock-2",
    "▸orders-0..3 (4)",
    "audit-5",
    "ledger-3",
    "users-6",
    "payments-1",
]


async def test_time_bombs_are_first_and_every_size_shows_verdict_action_name_and_loss() -> None:
    async with opened(every_verdict(), size=(60, 20)) as page:
        for size in ((60, 20), (80, 24), (120, 40)):
            await page.pilot.resize_terminal(*size)
            await page.press("home")
            await at_rest(page.pilot)
            assert page.names == GROUPS or size[0] < 120
            assert page.under_cursor.split()[:5] == [">", "BOMB", "stop", "b4", "NOW"]
            if size[0] >= 80:
                assert any(" Unread  Heard" in line for line in page.lines[3:5])
                heard = [line for line in page.lines if line.endswith((" 2 of 3", " 1 of 2"))]
                assert len(heard) == len(GROUPS)
            await page.press(*["down"] * 5)
            await at_rest(page.pilot)
            assert page.under_cursor.startswith("> LOSS  elect b1")
            assert "ledger-3" in page.under_cursor
            assert " 50" in page.under_cursor


async def test_groups_open_and_close_and_the_replicas_stand_below_or_beside_the_list() -> None:
    async with opened(incident_of(bomb(0), bomb(1), LEDGER)) as page:
        await page.press("enter")
        opened_group = ["▾carts-0..1 (2)", "carts-0", "carts-1", "ledger-3"]
        await page.until(lambda: page.names == opened_group, "the group to be open")
        assert page.names[0] in page.under_cursor
        await page.press("enter")
        closed_group = ["▸carts-0..1 (2)", "ledger-3"]
        await page.until(lambda: page.names == closed_group, "the group to be closed")
        await page.press("right", "down", "down")
        await page.until(lambda: "carts-1" in page.under_cursor, "the cursor on carts-1")
        await page.press("left")
        await page.until(lambda: "▸carts-0..1 (2)" in page.under_cursor, "the cursor on the group")

        await page.press("end")
        await page.shows("assignment 2,3,1", "would be elected", "adds 50 past 100")
        await page.shows("?: fenced, b3 does not", "b1 loses 50 records")
        await page.pilot.resize_terminal(180, 40)
        await page.until(
            lambda: any("Topic-partition" in line and "ledger-3" in line for line in page.lines),
            "both side by side",
        )


async def test_the_cursor_stays_on_its_partition_when_others_come_are_judged_or_join_a_group() -> (
    None
):
    judged = every_verdict()
    first = replace(judged, rows=tuple(IncidentRow(row.state) for row in judged.rows), carried=None)
    before = incident_of(LEDGER, lossless(1))
    after = incident_of(LEDGER, lossless(1), bomb(0), bomb(1), waiting(7))
    grouped = incident_of(*map(lossless, range(3)))
    async with opened(before, after, grouped, before) as page:
        await page.press("down")
        assert "payments-1" in page.under_cursor
        for shown in ("orders-7", "(3)"):
            await page.press("ctrl+r")
            await page.shows(shown)
            assert "payments-1" in page.under_cursor
        await page.press("ctrl+r")
        await page.hides("(3)")
        assert [line for line in page.rows() if line.startswith(" payments-1 ")]
    async with opened(first, judged) as page:
        assert "__consumer_offsets-7" in page.under_cursor
        await page.press("ctrl+r")
        await page.until(lambda: "carts-0..2" in page.under_cursor, "what cannot wait")


async def test_sorting_keeps_the_cursor_and_a_reading_that_fails_keeps_the_list() -> None:
    async with opened(every_verdict(), SILENCE, size=(120, 40)) as page:
        await page.press("end")
        seen = []
        for _ in RowOrder:
            await page.press("s")
            seen.append(page.table.view.order)
            assert "payments-1" in page.under_cursor
        assert seen == [*list(RowOrder)[1:], RowOrder.URGENCY]
        assert page.names == GROUPS
        await page.press("s", "s")
        await page.shows("by loss")
        assert page.names[:3] == ["users-6", "__consumer_offsets-7", "ledger-3"]
        await page.press("S")
        await page.shows("by topic")
        assert page.names[0] == "__consumer_offsets-7"
        before = page.names
        await page.press("ctrl+r")
        await page.shows("no broker answers")
        assert page.names[: len(before)] == before


async def test_what_is_not_read_yet_silent_or_led_again_is_said_and_every_key_is_harmless() -> None:
    others = ("DESCRIBE on group billing", "READ on topic users")
    heard = replace(half_heard(), missing_acls=others)
    well = nothing_offline()
    cut_off = replace(well, snapshot=replace(well.snapshot, quorum=Silent("no answer")))
    readings = unread(5), every_verdict(), heard, cut_off
    async with opened(*readings, size=(120, 24)) as page:
        assert page.names == ["▸orders-0..4 (5)"]
        await page.shows("reading: 0 of 5", "have not been read yet")
        await page.press("ctrl+r")
        await page.until(lambda: "BOMB" in page.under_cursor, "the verdicts")
        await page.press("ctrl+r")
        await page.shows("waiting for b2", "no answer from b3", "group billing and 1 more")
        await page.press("ctrl+r")
        await page.until(lambda: page.text.count("as far as this broker") == 2, "both places")
        assert "ledger" not in page.text
        await page.press("e", "d", "y", "space", "enter", "right", "left", "asterisk", "p")


async def test_before_anything_is_read_the_list_says_why_it_is_empty() -> None:
    async with console_on(SILENCE).run_test(size=(80, 24)) as pilot:
        await shows(pilot, "has not been read yet")


async def test_hostile_names_and_reasons_are_shown_and_do_nothing() -> None:
    async with opened(hostile_names(), size=(120, 50)) as page:
        await page.press("down")
        await page.shows(r"orders\x1b[2J[red]x[/]\u202e注文-ä-0")
        await page.shows(r"\x1b]0;owned\x07 [bold]b3[/bold]")
        assert is_inert(page.console)
        await page.press("enter")
        await page.shows("Each choice", r"\x1b]0;owned\x07 [bold]b3[/bold]")
        assert is_inert(page.console)


async def test_in_ascii_groups_and_rules_have_signs_of_their_own() -> None:
    ascii_only = Terminal(ascii_only=True)
    async with opened(every_verdict(), terminal=ascii_only, theme="breakglass-monochrome") as page:
        await page.press("enter")
        assert page.text.isascii()
        assert "vcarts-0..2 (3)" in page.text
        assert ">orders-0..3 (4)" in page.text


async def test_a_change_after_a_reading_without_one_is_seen_in_a_long_list(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """What is the same is not listed again; the partition that is judged otherwise is."""
    monkeypatch.setattr(partition_list, "AT_ONCE", 2)
    quiet = every_verdict()
    orders, safe = quiet.row(TopicPartition("orders", 2)), quiet.row(TopicPartition("payments", 1))
    assert orders is not None
    assert safe is not None
    rows = [replace(row, judged=safe.judged) if row is orders else row for row in quiet.rows]
    changed = replace(quiet, rows=tuple(rows))
    readings = quiet, replace(quiet), changed, quiet, replace(quiet), changed
    async with opened(*readings, size=(120, 40)) as page:
        asked, known = watch_of(page.console).asked, page.console.context.known
        for written in ("", "orders"):
            page.console.screen.query_one("#filter", Input).value = written
            await page.until(lambda: "▸orders-0..3 (4)" in page.names, "the list")
            done = len(asked)
            await page.press("ctrl+r")
            await page.until(lambda: len(asked) == done + 1, "a quiet reading")  # noqa: B023
            assert "orders-2" not in page.names
            await page.until(lambda: not known.reading, "its end")
            await page.press("ctrl+r")
            await page.until(lambda: "orders-2" in page.names, "the change")
            assert "▸orders-* (3)" in page.names
            await page.until(lambda: not known.reading, "its end")
            await page.press("ctrl+r")


async def test_nothing_moves_while_a_filter_is_typed_in_place_of_the_keys() -> None:
    async with opened(every_verdict()) as page:
        height, keys = page.table.size.height, page.lines[-1]
        assert keys.endswith("? help")
        await page.press("slash", *"ledger")
        await page.until(lambda: page.names == ["ledger-3"], "what the filter keeps")
        await page.until(lambda: page.lines[-1] == "ledger", "what is typed in place of the keys")
        assert page.table.size.height == height
        await page.press("enter")
        await page.until(lambda: page.table.size.height < height, "room for replicas")
        await page.until(lambda: page.lines[-1] == keys, "the keys of a partition")


async def test_figures_older_than_the_metadata_are_told_by_their_age() -> None:
    """A log may have changed without a word in the metadata; 2 s ago would be untrue of it."""
    incident = diverged_incident()
    at_ms = incident.snapshot.observed_at_ms
    readings = [
        replace(incident, snapshot=replace(incident.snapshot, observed_at_ms=at_ms + later))
        for later in (59_000, 150_000)
    ]
    async with opened(*readings) as page:
        assert "figures up to" not in page.lines[2]
        await page.press("ctrl+r")
        await page.until(lambda: "figures up to 2 min old" in page.lines[2], "their age")


CARTS = tuple(TopicPartition("carts", number) for number in range(3))
LEDGER_3 = LEDGER.partition


async def test_marks_are_set_on_lines_on_groups_and_on_what_the_filter_keeps() -> None:
    async with opened(every_verdict(), size=(120, 40)) as page:
        await page.press("down", "space", "space")
        await page.shows("2 marked")
        marked = [line for line in page.lines if line.startswith(" *")]
        assert [one.split()[-9] for one in marked] == ["__consumer_offsets-7", "stock-2"]
        await page.press("up", "space")
        await page.shows("1 marked")
        await page.press("u", "slash", *"verdict:bomb,wait", "enter", "asterisk")
        await page.shows("7 marked")
        await page.press("escape", "asterisk")
        await page.shows("13 marked")
        await page.press("asterisk")
        await page.hides("marked")


async def test_a_group_shows_the_mark_of_all_and_the_cursor_and_what_is_led_again_loses_it() -> (
    None
):
    grouped = incident_of(bomb(0), bomb(1), LEDGER)
    before, later = incident_of(LEDGER, lossless(1)), incident_of(lossless(1))
    grown = incident_of(LEDGER, lossless(1), lossless(2))
    async with opened(grouped, before, later, before, grown) as page:
        await page.press("right", "down", "space")
        signs = [line[:2] for line in page.lines if "carts" in line[:40]]
        assert signs[:3] == ["  ", " *", "> "]
        await page.press("space")
        await page.shows("2 marked")
        assert any(line.startswith(" *BOMB") and "(2)" in line for line in page.lines)

        await page.press("u", "home", "down", "down", "slash", *"nowhere")
        await page.shows("No partition matches")
        await page.press("escape", "escape")
        await page.until(lambda: "carts-1" in page.under_cursor, "the cursor back on it")

        await page.press("ctrl+r")
        await page.until(lambda: "payments-1" in page.names, "others")
        await page.press("asterisk", "ctrl+r")
        await page.shows("1 marked")

        await page.press("u", "ctrl+r")
        await page.until(lambda: "ledger-3" in page.names, "the other again")
        await page.press("slash", *"payments", "enter", "ctrl+r")
        await page.shows("(2 of 3)")


async def test_a_filter_keeps_what_it_says_while_it_is_written_and_escape_takes_it_away() -> None:
    """No letter acts."""
    async with opened(every_verdict(), size=(120, 40)) as page:
        asked = page.asked(ElectionAsked)
        await page.press("slash", *"loss:>0")
        await page.until(lambda: page.names == ["__consumer_offsets-7", "ledger-3"], "what loses")
        await page.press("enter")
        await page.shows("loss:>0 (2 of 13)")
        assert page.console.focused is page.table
        await page.press("slash", "ctrl+u", *"ledger loss:lots")
        await page.shows("at 13: lots is no number")
        assert page.names == ["ledger-3"]
        await page.press("ctrl+u", *"epdf", "enter")
        await page.shows("No partition matches")
        assert asked.messages == []

        await page.press("escape", "slash", *"ledger")
        await page.until(lambda: page.names == ["ledger-3"], "the filter")
        await page.press("escape")
        await page.until(lambda: len(page.names) > 1, "all again")
        assert page.console.focused is not page.table
        await page.press("escape")
        assert page.console.focused is page.table
        await page.press("slash", *"ledger", "enter", "escape")
        await page.until(lambda: len(page.names) > 1, "all again")
        page.console.post_message(OfflineAsked("broker:4"))
        await page.until(lambda: page.names == ["▸carts-0..2 (3)"], "another screen's filter")
        await page.shows("broker:4 (3 of 13)")


async def test_acts_are_for_what_the_cursor_is_on_or_for_what_is_marked_or_kept_by_the_filter() -> (
    None
):
    async with opened(every_verdict(), size=(120, 60)) as page:
        elections, diffs = page.asked(ElectionAsked), page.asked(DiffAsked)
        await page.press("d", "e", "space", "end", "e", "u", "home", "down", "d", "e")
        assert [message.partitions for message in elections.messages] == [
            CARTS,
            CARTS,
            (TopicPartition("__consumer_offsets", 7),),
        ]
        named = [str(message.partition) for message in diffs.messages]
        assert named == ["carts-0", "__consumer_offsets-7"], "the first of a group"

        copies = page.asked(CopyAsked)
        await page.press("home", "space", "y", "u", "y")
        texts = [message.text for message in copies.messages]
        assert texts == ["carts-0\ncarts-1\ncarts-2", "__consumer_offsets-7"]
        await page.press("tab")
        assert page.console.focused is not page.table
        await page.press("down", "pagedown", "up", "pageup", "tab")
        assert page.console.focused is page.table

        plans = page.asked(PlanAsked)
        await page.press("home", "p", "space", "p", "u", "slash", *"ledger", "enter", "p")
        assert [message.partitions for message in plans.messages] == [(), CARTS, (LEDGER_3,)]
        await page.press("slash", "ctrl+u", *"nosuchtopic", "enter", "p")
        await page.until(lambda: len(page.console._notifications) == 1, "why not")
        assert len(plans.messages) == 3, "none of all where the filter keeps none"

        await page.opens("question_mark", HelpScreen)
        await page.shows(
            "Elect what is marked", "Make a plan", "Compare two replicas", "What happens if",
            "Filter the list", "Copy the names", "To the replicas", "Sort by the next",
            "Mark the line", "Mark all that match", "Unmark all", "Open group",
            "Close group", "Clear filter",
        )  # fmt: skip


@pytest.mark.parametrize("keys", [["p"], ["asterisk", "e"]])
async def test_acts_on_all_wait_for_the_list_that_the_filter_keeps(
    keys: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """A look at each of many rows takes a thread: until then the list shows the one before."""
    let_go = threading.Event()

    def slow(*given: Any) -> Any:
        assert not given[1].filter or let_go.wait(DEADLINE_SECONDS)
        return listing(*given)

    monkeypatch.setattr(partition_list, "AT_ONCE", 0)
    monkeypatch.setattr(partition_list, "listing", slow)
    async with opened(every_verdict()) as page:
        plans, elections = page.asked(PlanAsked), page.asked(ElectionAsked)
        await page.press("slash", *"loss:50", "enter", *keys[:1])
        assert (plans.messages, len(page.table.marks)) == ([], 0)
        let_go.set()
        await page.until(lambda: len(page.table.rows) == 1, "the list")
        await page.press(*keys[1:])
        both = plans.messages + elections.messages
        assert [message.partitions for message in both] == [(LEDGER_3,)]


async def test_brokers_are_declared_gone_and_taken_back_and_folders_asked_for_by_their_keys() -> (
    None
):
    async with opened(every_verdict(), size=(120, 40)) as page:
        await page.press("R")
        await page.shows("Log folders of the broker")
        await page.press("enter")
        await page.shows("Name a folder")
        await page.press(*"log:/gone", "enter")
        await page.shows("is no folder")
        await page.press("escape")
        assert page.table.has_focus

        watch = watch_of(page.console)
        await page.opens("b", Prompt)
        await page.press(*"four", "enter")
        await page.shows("by their ids: 4 7")
        assert watch.asked == [True]
        await page.press("ctrl+u", *"b4 3", "enter")
        await page.shows("declared gone: b4, b3")
        assert (watch.gone, watch.asked) == ((4, 3), [True, True])
        await page.opens("b", Prompt)
        await page.press("ctrl+u", "enter")
        await page.until(lambda: watch.gone == (), "nothing declared")
        await page.opens("b", Prompt)
        await page.shows("tab Those that do not answer")
        await page.press("tab", "enter")
        await page.until(lambda: watch.gone == (3,), "the silent one declared")


def test_folders_and_ids_are_read_as_they_are_written_and_what_is_no_id_has_a_fault() -> None:
    assert folders_in(" log:/a b/logs ,/c,") == ("/a b/logs", "/c")
    for text, brokers in {"4": (4,), "b4, b7": (4, 7), " 0 12 ": (0, 12), "": ()}.items():
        assert brokers_in(text) == brokers
        assert fault_in(text) == ""
    assert all(map(fault_in, ("four", "4;5", "-1", "b", "4.5")))


async def test_f_says_what_happens_by_itself_to_what_is_marked_or_to_all_and_whom_to_start() -> (
    None
):
    few = incident_of(*map(waiting, range(4)), LEDGER)
    async with opened(every_verdict(), few, size=(60, 20)) as page:
        await page.press("f")
        await page.shows("13 offline partitions", "3 the controller may elect b4")
        await page.shows("10 nobody is elected", "4 start b3 if")
        assert max(map(len, page.lines)) <= 60
        await page.press("escape")
        assert page.table.has_focus
        await page.press("ctrl+r")
        await page.until(lambda: len(page.table.rows) == 2, "fewer")
        await page.press("home", "right", "down", "space", "space", "f")
        await page.shows("2 offline partitions", "2 start b3")


async def test_enter_on_a_partition_shows_everything_about_it_and_keys_act_on_it() -> None:
    async with opened(diverged_incident(), nothing_offline(), size=(200, 50)) as page:
        asked = [page.asked(kind) for kind in (ElectionAsked, DiffAsked, CopyAsked)]
        await page.opens("enter", PartitionScreen)
        await page.shows("LOSS elect b1", "b1 and b2 diverge at 100", "b2 loses 25", "b3 loses ?")
        await page.shows("consumer groups were not read", "0 at 0-99, 2 at 100-124")
        await page.shows("topic id 11111111-2222", "ELR empty", "nobody is elected")
        await page.press("d", "e", "y")
        elections, diffs, copies = (one.messages for one in asked)
        assert [message.partition for message in diffs] == [LEDGER_3]
        assert [message.partitions for message in elections] == [(LEDGER_3,)]
        assert "b1 and b2 diverge at 100" in copies[0].text
        await page.press("ctrl+r")
        await page.shows("not offline any more", "b1 and b2 diverge at 100")


LOOK_SECONDS = 0.01


@dataclass
class HeldRescuer:
    """Tells its progress, and ends when the test lets it, or when it is stopped."""

    stop: Callable[[], bool] = lambda: False
    progress: Callable[[RescueProgress], None] = lambda _: None
    most_bytes: int | None = None
    release: threading.Event = field(default_factory=threading.Event)

    def rescue(self, at_risk: Sequence[AtRisk], folder: Path) -> tuple[RescuedPartition, ...]:
        self.progress(RescueProgress(folder, len(at_risk), 20, 50))
        while not self.release.wait(LOOK_SECONDS):
            if self.stop():
                return self._of(at_risk, (), "stopped on request")
        saved = Saved(2, (Span(100, 150),), 50, 4_000, folder / "b2" / "ledger" / "3")
        return self._of(at_risk, (saved,))

    def _of(
        self, at_risk: Sequence[AtRisk], saved: tuple[Saved, ...], reason: str = ""
    ) -> tuple[RescuedPartition, ...]:
        risks = [(one.partition, one.designee) for one in at_risk]
        return tuple([RescuedPartition(*risk, saved, reason=reason) for risk in risks])


@pytest.fixture
def rescuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldRescuer]:
    held = HeldRescuer()

    def made(_: object, __: str, stop: Callable[[], bool]) -> HeldRescuer:
        held.stop = stop
        return held

    monkeypatch.setattr(rescue, "rescuer", made)
    yield held
    held.release.set()


def test_what_is_saved_is_what_the_recommended_replicas_lack(tmp_path: Path) -> None:
    incident = every_verdict()
    everything = [row.partition for row in incident.rows]
    prepared = prepare(incident, everything, tmp_path)
    named = sorted(str(risk.partition) for risk in prepared.at_risk)
    assert named == ["__consumer_offsets-7", "ledger-3", "users-6"]
    assert prepared.without == len(everything) - 3
    assert (prepared.brokers, prepared.offsets >= 490) == ((2,), True)


async def test_w_saves_what_the_first_line_says_and_y_copies_its_command_with_the_connection(
    rescuer: HeldRescuer, tmp_path: Path
) -> None:
    rescuer.release.set()
    how: dict[str, Any] = {"state_folder": tmp_path, "size": (120, 40)}
    async with opened(every_verdict(), nothing_offline(), **how) as page:
        context = page.console.context
        page.console.context = replace(context, connection_words=("--profile", "prod eu"))
        await page.shows("press W to save what b3 lacks")
        asked = page.asked(CopyAsked)
        await page.press("Y")
        command = "breakglass rescue --before-return 3 --profile 'prod eu'"
        assert [message.text for message in asked.messages] == [command]
        await page.press("W")
        await page.shows("To be saved: 4 partitions", "9 other offline partitions: b3")
        await page.press("enter")
        await page.shows("Saved 200 records")
        await page.press("escape", "1", "2", "ctrl+r")
        await page.shows("No partition is offline.")
        await page.press("W", "Y")
        assert page.table.has_focus
        assert len(asked.messages) == 1


async def test_r_shows_what_would_be_saved_enter_saves_it_and_escape_stops_before_it_goes_back(
    rescuer: HeldRescuer, tmp_path: Path
) -> None:
    nothing = incident_of(lossless(1), waiting(2))
    how: dict[str, Any] = {"state_folder": tmp_path, "size": (120, 40)}
    async with opened(incident_of(LEDGER), nothing, **how) as page:
        await page.press("r")
        await page.shows("Enter begins", "50 offsets at most", str(tmp_path / "rescue")[:40])
        await page.press("enter")
        await page.shows("Copying: 20 of 50")
        await page.press("escape")
        assert isinstance(page.console.screen, RescueScreen)
        await page.shows("stopped on request")
        await page.press("escape")
        assert page.table.has_focus

        await page.press("r")
        await page.shows("Enter begins")
        await page.press("enter")
        await page.shows("Copying: 20 of 50")
        rescuer.release.set()
        await page.shows("Saved 50 records", "1 of 1 partitions", "ledger-3: 50 records of b2")
        await page.press("enter")
        asked = page.asked(CopyAsked)
        await page.press("y")
        assert "ledger-3: 50 records of b2" in asked.messages[0].text
        await page.press("escape")
        assert page.table.has_focus

        await page.press("ctrl+r")
        await page.until(lambda: "payments-1" in page.names, "others")
        await page.press("asterisk", "r")
        await page.shows("cuts off no records")
        await page.press("enter")
        assert "Copying" not in page.text
