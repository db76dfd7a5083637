"""A plan goes to a file and comes back, and through the operator's own editor."""

from __future__ import annotations

import stat
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from breakglass.console.app import BreakglassApp
from breakglass.screens.plan.files import ProblemsDialog
from breakglass.screens.widgets.dialog import Prompt, Question
from breakglass.services.recovery.plan.file import write_plan
from breakglass.services.recovery.plan.partition_file import Election, write_elections
from tests.kit.incidents import every_verdict
from tests.kit.plans import read_plan, render_plan
from tests.screens.consoles import watch_of
from tests.screens.plan.plan_consoles import (
    LEDGER_3,
    dialog,
    known,
    leaders,
    made,
    no_dialog,
    plan_console,
    said,
    shows,
    told,
    typed,
    view_of,
)
from tests.screens.turns import text, until
from tests.unit.recovery.plans import SAFE, planned


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


async def test_a_plan_is_saved_to_a_new_file_and_again_over_it(plan_file: Path) -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await shows(pilot, console, "in no file")
        await pilot.press("s")
        await dialog(pilot, console, Prompt)
        await typed(pilot, console, str(plan_file))
        await told(pilot, console, f"saved to {plan_file}")
        assert read_plan(plan_file).digest == view_of(console).draft.plan.digest
        await pilot.press("x")
        await told(pilot, console, "left out")
        await shows(pilot, console, "(not saved)")
        await pilot.press("s")
        await dialog(pilot, console, Prompt)
        await pilot.press("enter")
        await told(pilot, console, f"saved to {plan_file}")
        assert read_plan(plan_file).digest == view_of(console).draft.plan.digest
        await until(pilot, lambda: "(not saved)" not in text(console), "(not saved)" + " gone")


async def test_a_file_that_is_not_the_plans_own_is_kept(plan_file: Path) -> None:
    plan_file.write_text("precious")
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("s")
        await dialog(pilot, console, Prompt)
        await typed(pilot, console, str(plan_file))
        await told(pilot, console, "exists already and is kept: name another file.")
        assert plan_file.read_text() == "precious"


async def test_a_file_that_somebody_wrote_meanwhile_is_kept(plan_file: Path) -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("s")
        await dialog(pilot, console, Prompt)
        await typed(pilot, console, str(plan_file))
        await told(pilot, console, "saved")
        plan_file.write_text(render_plan(planned(SAFE)))
        await pilot.press("s")
        await dialog(pilot, console, Prompt)
        await pilot.press("enter")
        await told(pilot, console, "was changed by somebody else in between")
        assert list(read_plan(plan_file).leaders) == [SAFE.partition]


async def test_escape_empties_the_name_first_and_saves_nothing(plan_file: Path) -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("s")
        await dialog(pilot, console, Prompt)
        await pilot.press("escape", "enter")
        await shows(pilot, console, "Give the file a name.")
        await pilot.press("escape")
        await no_dialog(pilot, console)
        assert said(console) == ""


async def opened(pilot: object, console: BreakglassApp, path: Path) -> None:
    """Open the plan in *path*."""
    await pilot.press("o")  # type: ignore[attr-defined]
    await dialog(pilot, console, Prompt)  # type: ignore[arg-type]
    await typed(pilot, console, str(path))  # type: ignore[arg-type]
    await no_dialog(pilot, console)  # type: ignore[arg-type]


async def test_an_opened_plan_is_stale_until_everything_is_read_again(plan_file: Path) -> None:
    first = plan_console(every_verdict())
    async with first.run_test(size=(80, 24)) as pilot:
        await made(pilot, first)
        write_plan(view_of(first).draft.plan, plan_file)
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await known(pilot, console)
        await opened(pilot, console, plan_file)
        await told(pilot, console, f"opened {plan_file}: elects 7 partitions")
        await shows(pilot, console, "STALE: opened from a file; ctrl+r reads everything again")
        await pilot.press("e")
        await told(pilot, console, "Cannot be elected: it was opened from a file")
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")
        await shows(pilot, console, "7 unchanged")
        await until(pilot, lambda: "STALE" not in text(console), "STALE" + " gone")


async def test_a_file_in_kafkas_form_gets_its_evidence_by_reading(plan_file: Path) -> None:
    write_elections([Election(LEDGER_3, 2)], plan_file)
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await known(pilot, console)
        await opened(pilot, console, plan_file)
        await shows(pilot, console, "NO EVIDENCE: a file in Kafka's format; ctrl+r reads it")
        await pilot.press("l")
        await told(pilot, console, "The plan has no evidence yet")
        await pilot.press("v")
        await told(pilot, console, "The plan has no evidence yet")
        await pilot.press("a", "escape", "escape")
        await no_dialog(pilot, console)
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")
        assert leaders(console) == {"ledger-3": 2}
        await shows(pilot, console, "1 unchanged")


@pytest.mark.parametrize(
    ("content", "message"),
    [
        ("{", "is not JSON at line 1, column 2"),
        ('{"partitions": []}', "names no partition"),
        ("\xff", "names"),
    ],
)
async def test_what_is_no_plan_is_refused_and_the_plan_stays(
    plan_file: Path, content: str, message: str
) -> None:
    plan_file.write_bytes(content.encode("latin-1"))
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        before = view_of(console)
        await opened(pilot, console, plan_file)
        await until(pilot, lambda: said(console) != "", "a refusal")
        assert message in said(console) or "UTF-8" in said(console)
        assert view_of(console) is before


async def test_opening_another_asks_before_edits_are_thrown_away(plan_file: Path) -> None:
    write_plan(planned(SAFE), plan_file)
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("x")
        await told(pilot, console, "left out")
        await pilot.press("o")
        await dialog(pilot, console, Question)
        await pilot.press("escape")
        await no_dialog(pilot, console)
        assert len(view_of(console).rows) == 13


Editor = Callable[..., Path]


@pytest.fixture
def editor(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Editor:
    """Makes a program the operator's editor; the terminal is a test's, so it is handed to nobody.

    Each line of *script* is of sh, and $1 the file. What it was called with is written to the
    file that is returned.
    """

    def make(*script: str) -> Path:
        program, calls = tmp_path / "vi", tmp_path / "calls"
        head = ("#!/bin/sh", f'echo "$@" >> {calls}', 'for it; do file="$it"; done')
        program.write_text("\n".join((*head, *script, "")))
        program.chmod(0o755)
        monkeypatch.setenv("VISUAL", str(program))
        return calls

    monkeypatch.setattr(BreakglassApp, "suspend", lambda _: nullcontext())
    return make


REPLACE = 'sed -i \'/"partition": 3, "designatedLeader": 1.*ledger\\|ledger.*"partition": 3/s/'
TO_B2 = f'{REPLACE}"designatedLeader": 1/"designatedLeader": 2/\' "$file"'
TO_B3 = f'{REPLACE}"designatedLeader": 1/"designatedLeader": 3/\' "$file"'
BACK_TO_B2 = f'{REPLACE}"designatedLeader": 3/"designatedLeader": 2/\' "$file"'


async def test_a_plan_is_edited_as_a_text_and_is_stale_afterwards(editor: Editor) -> None:
    editor(TO_B2)
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("v")
        await told(pilot, console, "edited as a text: ledger-3; loses ~490 -> ~465")
        assert leaders(console)["ledger-3"] == 2
        await shows(pilot, console, "STALE: edited as a text; ctrl+r reads everything again")
        await pilot.press("e")
        await told(pilot, console, "Cannot be elected: it was edited as a text")
        await pilot.press("u")
        await told(pilot, console, "undone: edited as a text")
        await shows(pilot, console, "STALE: edited as a text")
        await pilot.press("ctrl+r")
        await told(pilot, console, "read again and checked")
        await until(pilot, lambda: "STALE" not in text(console), "STALE" + " gone")


async def test_faults_of_the_text_are_pointed_at_and_it_is_edited_again(editor: Editor) -> None:
    calls = editor(f'if grep -q \'"designatedLeader": 3\' "$file"; then {BACK_TO_B2}; '
                   f"else {TO_B3}; fi")  # fmt: skip
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("v")
        found = await dialog(pilot, console, ProblemsDialog)
        (problem,) = found._problems
        assert problem.what == "b3 cannot lead ledger-3: b3 is fenced"
        await shows(pilot, console, f"line {problem.line}, column {problem.column}")
        await pilot.press("enter")
        await no_dialog(pilot, console)
        await told(pilot, console, "edited as a text: ledger-3")
        assert leaders(console)["ledger-3"] == 2
        assert [line.split()[0] for line in calls.read_text().splitlines()] == [
            "+1",
            f"+{problem.line}",
        ]


async def test_a_faulty_text_can_be_dropped(editor: Editor) -> None:
    editor('echo nonsense > "$file"')
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        before = view_of(console)
        await pilot.press("v")
        await dialog(pilot, console, ProblemsDialog)
        await shows(pilot, console, "line 1, column 1: this is not JSON")
        await pilot.press("escape")
        await no_dialog(pilot, console)
        assert said(console) == "The text was discarded; the plan is unchanged."
        assert view_of(console) is before


async def test_a_text_left_as_it_was_changes_nothing(editor: Editor) -> None:
    editor("true")
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("v")
        await told(pilot, console, "The text was not edited: the plan is unchanged.")
        await until(pilot, lambda: "STALE" not in text(console), "STALE" + " gone")


async def test_an_editor_that_fails_changes_nothing(editor: Editor) -> None:
    editor(TO_B2, "exit 3")
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("v")
        await told(pilot, console, "ended with 3, so its text was not used.")
        assert leaders(console)["ledger-3"] == 1


async def test_the_text_is_for_its_owner_only_and_gone_afterwards(
    editor: Editor, tmp_path: Path
) -> None:
    editor(f'ls -l "$file" > {tmp_path}/listed; echo "$file" > {tmp_path}/named')
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("v")
        await told(pilot, console, "the plan is unchanged")
    assert (tmp_path / "listed").read_text().startswith(stat.filemode(stat.S_IFREG | 0o600))
    assert not Path((tmp_path / "named").read_text().strip()).parent.exists()


@pytest.mark.parametrize(
    ("named", "message"),
    [("no-such-editor", "was not found: set EDITOR"), ("vi 'unfinished", "is no command")],
)
async def test_an_editor_that_is_none_is_told(
    named: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("VISUAL", named)
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("v")
        await told(pilot, console, message)


async def test_without_a_terminal_there_is_no_editor(
    editor: Editor, monkeypatch: pytest.MonkeyPatch
) -> None:
    editor("true")
    monkeypatch.undo()
    monkeypatch.setenv("VISUAL", "true")
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("v")
        await told(pilot, console, "There is no terminal here for an editor")


async def test_leaving_with_edits_that_are_in_no_file_takes_a_second_key() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24), notifications=True) as pilot:
        await made(pilot, console)
        await pilot.press("x")
        await told(pilot, console, "left out")
        await pilot.press("2", "q")
        await until(pilot, lambda: "q again to leave" in text(console), "the warning")
        assert console.is_running
        await pilot.press("q")
        await until(pilot, lambda: watch_of(console).closed, "the end")


async def test_leaving_a_plan_that_nobody_edited_takes_one_key() -> None:
    console = plan_console(every_verdict())
    async with console.run_test(size=(80, 24)) as pilot:
        await made(pilot, console)
        await pilot.press("q")
        await until(pilot, lambda: watch_of(console).closed, "the end")
