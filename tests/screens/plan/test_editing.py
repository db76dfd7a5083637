"""A plan is made, edited, undone and redone by keys, in a file and in an operator's editor; it says
at each step what that loses, and is approved, read again and elected.
"""

import stat
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from typing import NoReturn

import pytest

from breakglass.console.app import WARNED_SECONDS, BreakglassApp
from breakglass.screens.messages import DiffAsked, ElectionAsked, PlanAsked
from breakglass.screens.plan import acts
from breakglass.screens.plan.asking import (
    ApproveDialog,
    BrokersDialog,
    LeaderDialog,
    NotesDialog,
    ProblemsDialog,
    RulesDialog,
    editor_command,
)
from breakglass.screens.plan.screen import PlanScreen
from breakglass.screens.terminal import Terminal
from breakglass.screens.widgets.dialog import Prompt, Question
from breakglass.services.errors import TimedOut, UsageError
from breakglass.services.recovery.plan.check import CheckStatus
from breakglass.services.recovery.plan.document import ChosenBy, write_plan
from breakglass.services.recovery.plan.partition_file import Election, write_elections
from breakglass.themes.roles import Role, role_style
from tests.kit.clock import Clock
from tests.kit.incidents import (
    LEDGER,
    diverged_incident,
    every_verdict,
    incident_of,
    lossless,
    many_offline,
    nothing_offline,
    unread,
)
from tests.kit.plans import read_plan, render_plan
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.consoles import Asked, watch_of
from tests.screens.plan.plan_consoles import FORK, LEDGER_3, OFFSETS, PlanPage, planned, planning
from tests.screens.turns import line_with, opens, strips, text, until
from tests.unit.recovery.plans import SAFE
from tests.unit.recovery.plans import planned as planned_of
from tests.unit.recovery.replicas import log, offline, silent

EDITS = ("l", "x", "X", "b", "u", "ctrl+y", "a", "s", "e", "v", "n", "f", "d", "space", "enter")


async def test_a_plan_is_made_of_all_that_is_offline_and_leaders_are_chosen_at_their_loss() -> None:
    async with planning() as page:
        await page.shows("No plan yet: p makes one")
        for key in (*EDITS, "slash"):
            await page.press(key)
        assert isinstance(page.console.screen, PlanScreen)
        assert page.screen.view is None
        await page.make()
        before = page.view.spoken
        await page.shows("loses ~490", before)
        assert (len(page.view.rows), len(page.leaders)) == (13, 7)

        await page.at(LEDGER_3)
        await page.choose("l", LeaderDialog, "enter", says="Nothing to change.")
        assert page.view.draft.history.last is None, "who is elected already was chosen"
        await page.opens("enter", LeaderDialog)
        await page.shows("b1 elected, best", "Electing b1 loses 50.")
        await page.press("down", "down", "enter")
        await page.shows("b3 cannot be elected")
        await page.press("up")
        await page.shows("Electing b2 loses 25.")
        await page.press("enter", says="ledger-3: b1 -> b2")
        await page.closes()
        assert page.said.endswith("loses ~490 -> ~465")
        assert page.leaders["ledger-3"] == 2
        assert page.view.draft.plan.records[LEDGER_3].chosen_by is ChosenBy.HAND
        assert page.view.spoken != before
        await page.shows("≠b2")

        await page.at(FORK)
        await page.press("x", says="choose a leader (l)")
        await page.opens("l", LeaderDialog)
        await page.shows("Needs its own consent")
        await page.press("enter", says="audit-5: left out -> b2")


async def test_a_plan_asked_for_by_another_screen_has_its_rows_and_one_without_edits_is_left() -> (
    None
):
    """What is not offline is in no plan, and what is not read yet is elected by none."""
    emptied = offline(log(1, (0, 125)), log(2), silent(3), topic="ledger", number=3)
    async with planning(
        nothing_offline(), unread(3), incident_of(emptied), every_verdict()
    ) as page:
        await page.press("p", says="No partition was offline")
        await page.press("ctrl+r")
        await page.shows("3 offline")
        await page.make()
        assert page.said.startswith("3 partitions")
        assert page.leaders == {}

        page.console._refresher.ask()
        await page.shows("1 offline")
        await page.press("p")
        await until(
            page.pilot, lambda: [row.partition for row in page.view.rows] == [LEDGER_3], "its plan"
        )
        await page.opens("l", LeaderDialog)
        assert "DESTROYS 125" in line_with(page.console, " b2 ")
        await page.press("down")
        await page.shows("b2 is EMPTY")
        segments = [segment for strip in strips(page.console) for segment in strip]
        drawn = [segment.style for segment in segments if "DESTROYS" in segment.text]
        lost = role_style(page.console, Role.LOST).color
        assert [style and style.color for style in drawn] == [lost] * 2
        await page.press("escape")
        await page.closes()

        page.console._refresher.ask()
        await page.shows("13 offline")
        page.console.post_message(PlanAsked([LEDGER_3, FORK]))
        await until(page.pilot, lambda: len(page.view.rows) == 2, "a plan")
        assert [row.partition for row in page.view.rows] == [FORK, LEDGER_3]
        asked = Asked(page.console, DiffAsked)
        await page.at(LEDGER_3)
        await page.press("d")
        await until(page.pilot, lambda: asked.messages, "the question")
        assert [message.partition for message in asked.messages] == [LEDGER_3]
        await page.press("q")
        await until(page.pilot, lambda: watch_of(page.console).closed, "the end")


def test_a_plan_made_here_has_every_partition_however_many_there_are() -> None:
    draft, said_of_it = acts.make(many_offline(1_001), ())
    assert (len(draft.plan.records), said_of_it) == (1_001, "")


async def test_edits_are_taken_back_and_made_again_one_by_one_or_for_all_marked_rows() -> None:
    async with planned() as page:
        first = page.view.spoken
        assert page.screen.check_action("undo", ()) is None
        await page.press("x", says="left out; elects 7 -> 6")
        edited = page.view.spoken
        await page.shows("≠out")
        await page.press("x", says="taken in; elects 6 -> 7")
        assert page.view.spoken == first
        await page.press("u", says="undone: __consumer")
        assert page.view.spoken == edited
        await page.press("u", says="elects 6 -> 7")
        assert page.view.spoken == first
        assert page.screen.check_action("undo", ()) is None
        await page.press("ctrl+y", says="again: __consumer")
        assert page.view.spoken == edited
        await page.press("ctrl+y", says="taken in")
        assert page.screen.check_action("redo", ()) is None

        await page.at(LEDGER_3)
        await page.press("space", "space", "space")
        await page.shows("3 marked")
        await page.press("x", says="elects 7 -> 4")
        await page.press("x", says="elects 4 -> 7")
        await page.press("escape")
        await page.hides("marked")

        await page.at(LEDGER_3)
        done = len(page.view.draft.history.edits)
        await page.press(*["x"] * 6)
        await page.idle()
        assert len(page.view.draft.history.edits) == done + 6
        await page.write("X", Prompt, "ask [b]ada")
        assert page.view.draft.plan.records[LEDGER_3].left_out == "ask [b]ada"
        await page.shows("left out: ask [b]ada")
        row = page.screen.current
        assert row is not None
        assert (row.partition, "ledger-3" in page.leaders) == (LEDGER_3, False)

        edited = page.view.spoken
        await page.choose("p", Question, "enter")
        assert page.view.spoken == edited, "edits in no file are not thrown away unasked"
        await page.choose("p", Question, "ctrl+d")
        await until(page.pilot, lambda: page.view.spoken == first, "another plan")


async def rule(page: PlanPage, downs: int, *keys: str, says: str = "") -> None:
    """Choose the rule so many rows down the list; *keys* are for the brokers it asks for."""
    await page.opens("b", RulesDialog)
    await page.press(*["down"] * downs, "enter")
    if keys:
        await opens(page.pilot, BrokersDialog)
        await page.press(*keys)
    await page.closes()
    await page.press(says=says)


async def test_a_rule_is_for_all_rows_or_for_the_marked_ones_and_filters_show_what_it_did() -> None:
    async with planned() as page:
        before = page.view.spoken
        await page.choose("b", RulesDialog, "escape")
        await rule(page, 3, "escape")
        assert page.view.draft.history.last is None
        await rule(page, 0, says="loses ~490 -> ~425")
        assert (page.leaders["ledger-3"], page.leaders[str(OFFSETS)]) == (2, 2)
        await page.press("u", says="undone")
        await rule(page, 2, "enter", says="Nothing to change.")
        await rule(page, 3, "space", "space", "enter", says="never b1, b2: 7")
        assert page.leaders == {}
        await page.press("u", says="undone: never")
        await rule(page, 4, says="elects 7 -> 3")
        await rule(page, 5, says="elects 3 -> 7")
        assert page.view.spoken == before
        await page.at(LEDGER_3)
        await page.press("space")
        await rule(page, 3, "enter", says="never b1: ledger-3")
        assert page.leaders["orders-0"] == 1

        await page.press("escape", "f")
        await page.idle()
        await page.shows("(1 of 13)", "1 ≠ best")
        await page.press("f")
        await page.shows("(6 of 13)")
        await page.press("escape")
        await page.shows("orders-0")
        await page.write("slash", Prompt, "orders")
        await page.shows("(4 of 13)")
        await page.hides("audit-5")


async def test_every_dialog_draws_itself_in_every_size_in_ascii() -> None:
    async with planned(diverged_incident(), terminal=Terminal(ascii_only=True)) as page:
        for size in ((80, 24), (40, 10)):
            await page.pilot.resize_terminal(*size)
            for key in ("l", "b", "a", "n", "s", "X", "slash"):
                await page.press(key)
                await until(page.pilot, lambda: len(page.console.screen_stack) > 1, "a dialog")
                await page.pilot.pause()
                assert text(page.console).isascii()
                await page.press("escape", "escape")
                await page.closes()


ROOT = Path(__file__).parents[3]
SUSPEND = BreakglassApp.suspend
CHECKED = "read again and checked"
NO_PLANS = {b"{": "line 1, column 2", b'{"partitions": []}': "names no partition", b"\xff": "UTF-8"}


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def test_the_screen_is_imported_without_the_plan() -> None:
    probe = "import breakglass.screens.plan.screen, sys; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


async def test_a_plan_is_saved_over_its_own_file_alone_and_gives_way_to_no_other_unasked(
    plan_file: Path,
) -> None:
    async with planned() as page:
        await page.opens("s", Prompt)
        await page.press("escape", "enter")
        await page.shows("Give the file a name.")
        await page.press("escape")
        await page.closes()
        assert page.said == ""
        plan_file.write_text("precious")
        await page.write("s", Prompt, str(plan_file), says="exists already")
        assert plan_file.read_text() == "precious"
        plan_file.unlink()
        await page.write("s", Prompt, str(plan_file), says="saved to")
        assert read_plan(plan_file).digest == page.view.draft.plan.digest
        await page.press("x", says="left out")
        await page.shows("(not saved)")
        await page.choose("s", Prompt, "enter", says="saved to")
        assert read_plan(plan_file).digest == page.view.draft.plan.digest
        await page.hides("(not saved)")
        plan_file.write_text(render_plan(planned_of(SAFE)))
        await page.choose("s", Prompt, "enter", says="by somebody else")
        assert list(read_plan(plan_file).leaders) == [SAFE.partition]

        before = page.view
        for content, says in NO_PLANS.items():
            plan_file.write_bytes(content)
            await page.write("o", Prompt, str(plan_file), says=says)
            assert page.view is before
        await page.press("x", says="taken in")
        await page.choose("o", Question, "escape")
        assert len(page.view.rows) == 13, "edits are not thrown away unasked"


async def test_an_opened_plan_is_stale_and_one_in_kafkas_form_bare_until_all_is_read_again(
    plan_file: Path, tmp_path: Path
) -> None:
    bare = tmp_path / "elections.json"
    write_elections([Election(LEDGER_3, 2)], bare)
    async with planning() as page:
        await page.write("o", Prompt, str(bare))
        await page.shows("NO EVIDENCE")
        for key in ("l", "v"):
            await page.press(key, says="no evidence yet")
        await page.press("a", "escape", "escape")
        await page.closes()
        await page.press("ctrl+r", says=CHECKED)
        assert page.leaders == {"ledger-3": 2}
        await page.shows("1 unchanged")
    async with planned() as page:
        write_plan(page.view.draft.plan, plan_file)
        await page.write("o", Prompt, str(plan_file), says="elects 7 partitions")
        await page.shows("STALE: opened from a file")
        await page.press("e", says="Cannot be elected")
        await page.press("ctrl+r", says=CHECKED)
        await page.shows("7 unchanged")
        await page.hides("STALE")


Editor = Callable[..., Path]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """Makes a program the operator's editor; the terminal is a test's, so it keeps it.

    Each line of *script* is of sh, and $1 the file. What it was called with is written to the
    file that is returned.
    """

    def make(*script: str) -> Path:
        program, calls = tmp_path / "vi", tmp_path / "calls"
        calls.unlink(missing_ok=True)
        head = ("#!/bin/sh", f'echo "$@" >> {calls}', 'for it; do file="$it"; done')
        program.write_text("\n".join((*head, *script, "")))
        program.chmod(0o755)
        monkeypatch.setenv("VISUAL", str(program))
        return calls

    monkeypatch.setattr(BreakglassApp, "suspend", lambda _: nullcontext())
    return make


def changing(leader: int, to: int) -> str:
    """A line of sh that makes b*to* lead ledger-3 in place of b*leader*."""
    place = '"partition": 3, "designatedLeader": 1.*ledger\\|ledger.*"partition": 3'
    one, other = (f'"designatedLeader": {broker}' for broker in (leader, to))
    return f"sed -i '/{place}/s/{one}/{other}/' \"$file\""


async def test_a_plan_edited_as_a_text_is_stale_and_faults_are_pointed_at_until_it_is_dropped(
    editor: Editor,
) -> None:
    editor(changing(1, 2))
    async with planned() as page:
        await page.press("v", says="edited as a text")
        assert page.leaders["ledger-3"] == 2
        await page.shows("STALE: edited as a text")
        await page.press("e", says="Cannot be elected")
        await page.press("u", says="undone: edited as a text")
        await page.shows("STALE: edited as a text")
        await page.press("ctrl+r", says=CHECKED)
        await page.hides("STALE")

        wrong = 'grep -q \'"designatedLeader": 3\' "$file"'
        calls = editor(f"if {wrong}; then {changing(3, 2)}; else {changing(1, 3)}; fi")
        found = await page.opens("v", ProblemsDialog)
        (problem,) = found._rows
        assert problem.what.startswith("b3 cannot lead ledger-3")
        await page.shows(f"line {problem.line}, column {problem.column}")
        await page.press("enter", says="edited as a text")
        assert page.leaders["ledger-3"] == 2
        places = [line.split()[0] for line in calls.read_text().splitlines()]
        assert places == ["+1", f"+{problem.line}"]
        editor('echo nonsense > "$file"')
        before = page.view
        await page.choose("v", ProblemsDialog, "escape", says="discarded")
        assert page.view is before


async def test_an_editor_that_changes_nothing_fails_is_none_or_has_no_terminal_leaves_the_plan(
    editor: Editor, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What it was given was for its owner alone."""
    editor(f'ls -l "$file" > {tmp_path}/listed; echo "$file" > {tmp_path}/named')
    async with planned() as page:
        await page.press("v", says="the plan is unchanged")
        await page.hides("STALE")
        assert (tmp_path / "listed").read_text().startswith(stat.filemode(stat.S_IFREG | 0o600))
        assert not Path((tmp_path / "named").read_text().strip()).parent.exists()
        editor(changing(1, 2), "exit 3")
        await page.press("v", says="ended with 3")
        monkeypatch.setattr(BreakglassApp, "suspend", SUSPEND)
        for named, says in (
            ("no-such-editor", "was not found"),
            ("vi 'unfinished", "is no command"),
            ("true", "no terminal here"),
        ):
            monkeypatch.setenv("VISUAL", named)
            await page.press("v", says=says)
        assert page.leaders["ledger-3"] == 1


def test_the_operators_editor_is_taken_and_vi_where_none_is_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError):
        editor_command({})
    (tmp_path / "vi").write_text("#!/bin/sh\n")
    (tmp_path / "vi").chmod(0o755)
    assert editor_command({"VISUAL": "vi -u NONE", "EDITOR": "ed"}) == ["vi", "-u", "NONE"]
    for named in ({"EDITOR": "vi"}, {"VISUAL": "", "EDITOR": ""}, {}):
        assert editor_command(named) == ["vi"]


B2, B3, B1 = LEDGER.replicas


def statuses(page: PlanPage) -> list[CheckStatus]:
    return [row.checked.status for row in page.view.rows if row.checked]


async def approve(page: PlanPage, name: str, heard: str = "", says: str = "") -> None:
    await page.opens("a", ApproveDialog)
    await page.fill(name, "#name")
    await page.fill(heard, "#heard")
    await page.closes()
    await page.press(says=says)


async def test_two_persons_approve_a_plan_and_any_edit_voids_that_a_note_as_well() -> None:
    async with planned() as page:
        spoken = page.view.spoken
        await page.opens("a", ApproveDialog)
        shown = text(page.console)
        for group in spoken.split("-"):
            assert "  ".join(group.upper()) in shown
        await page.shows("elects 7 partitions")
        await page.press("escape", "enter", "enter")
        await page.shows("Say who approves.")
        await page.press("escape")
        await page.closes()
        await approve(page, "grace", "lusab-babad-gutih", says="lusab-babad-gutih")
        await page.shows("approved 0 of 2")
        await approve(page, "ada", says=f"ada approves {spoken}")
        await approve(page, "Ada", says="one person counts once")
        await page.press("x", says="approvals void: ada")
        await page.shows("approved 0 of 2")
        await page.press("u", says="undone")
        await page.shows("approved 1 of 2: ada")
        await approve(page, "grace", spoken.upper().replace("-", " "), says="2 of 2")
        await page.shows("2 of 2: ada, grace")

        last = page.view.draft.history.last
        await page.choose("n", NotesDialog, "n", "h", "i", "escape", "escape", "escape")
        assert page.view.draft.history.last is last
        await page.opens("n", NotesDialog)
        for note in ("ask ada", "[red]\x1b[31mask grace"):
            await page.press("n")
            await page.fill(note)
        await page.shows("1  ask ada", "[red]\\x1b[31mask grace")
        await page.press("home", "x", "escape")
        await page.closes()
        assert page.view.notes == ("[red]\x1b[31mask grace",)
        assert page.view.spoken == spoken
        await page.shows("approved 0 of 2")
        await page.press("u", says="undone: notes changed")
        assert list(page.view.notes) == []
        await page.shows("2 of 2: ada, grace")


async def test_a_plan_is_read_again_elected_as_it_stands_and_not_left_with_edits_unasked() -> None:
    silence, clock = TimedOut("no broker answers", "none"), Clock()
    readings = diverged_incident(), silence, diverged_incident()
    async with planned(*readings, clock=clock) as page:
        clock.advance(1)
        await page.press("ctrl+r")
        await page.shows("no broker answers")
        assert CHECKED not in page.said
        await page.press("ctrl+r", says=CHECKED)
        assert statuses(page) == [CheckStatus.UNCHANGED]
        await page.choose("l", LeaderDialog, "down", "enter", says="ledger-3: b1 -> b2")
        assert statuses(page) == []

        heard = Asked(page.console, ElectionAsked)
        await page.press("e")
        await until(page.pilot, lambda: heard.messages, "the election")
        (asked,) = heard.messages
        assert asked.plan is page.view.draft.plan
        assert asked.partitions == ()
        await page.press("x", says="left out")
        await page.press("e", says="elects no leader")
        assert len(heard.messages) == 1

        await page.press("2", "q")
        await page.shows("q again to leave")
        clock.advance(WARNED_SECONDS + 1)
        await page.press("q")
        assert page.console.is_running, "it may be another edit by now"
        assert len(page.console._notifications) == 2
        await page.press("q")
        await until(page.pilot, lambda: watch_of(page.console).closed, "the end")


async def test_what_changed_in_the_cluster_is_shown_beside_the_plan_and_taken_by_a_rule() -> None:
    another = incident_of(LEDGER, lossless(1))
    led = incident_of(lossless(1), online=[replace(LEDGER.state, leader=2, leader_epoch=10)])
    grown = incident_of(replace(LEDGER, replicas=(B2, B3, replace(B1, log_end=126))))
    async with planned(diverged_incident(), another, grown, grown, led) as page:
        page.console._refresher.ask()
        await page.shows("2 offline")
        assert "has changed since" not in text(page.console), "its evidence is the same"
        page.console._refresher.ask()
        await page.shows("has changed since")
        await page.press("ctrl+r", says=CHECKED)
        await page.shows(": 1 changed", "was 125 and is 126")
        await page.press("f", "f", "f")
        await page.shows("(1 of 1)")
        await page.choose("b", RulesDialog, "end", "enter", says="evidence of now taken")
        assert statuses(page) == [CheckStatus.UNCHANGED]
        await page.press("u", says="undone: evidence")
        await page.shows("STALE: taken back")
        await page.press("escape", "ctrl+r")
        await page.shows(": 1 online", "online: b2 leads it")


async def test_e_waits_for_the_edits_before_it_and_elects_nothing_where_one_of_them_fails() -> None:
    """The key comes while the edit before it is still being worked out."""
    edited, refused = threading.Event(), threading.Event()

    def fail(_: object) -> NoReturn:
        raise ZeroDivisionError("odd")

    def refuse(_: object) -> NoReturn:
        refused.wait(DEADLINE_SECONDS)
        raise UsageError("not this one")

    async with planned(diverged_incident()) as page:
        before, asked = page.view, Asked(page.console, ElectionAsked)
        page.screen.desk.ask(fail, print)
        await page.press(says="ZeroDivisionError: odd")
        assert page.view is before
        page.screen.desk.ask(refuse, print)
        await page.press("e")
        refused.set()
        await page.press(says="not this one")
        await page.idle()
        page.screen.desk.change(lambda draft: (draft, str(edited.wait(DEADLINE_SECONDS))))
        await page.press("x", "e")
        assert asked.messages == [], "not with what is left out"
        edited.set()
        await page.press(says="elects no leader")
        assert asked.messages == []
