"""A plan goes to a file and comes back, and through the operator's own editor."""

from __future__ import annotations

import stat
import subprocess
import sys
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path

import pytest

from breakglass.console.app import BreakglassApp
from breakglass.screens.plan.files import ProblemsDialog, editor_command
from breakglass.screens.widgets.dialog import Prompt, Question
from breakglass.services.errors import UsageError
from breakglass.services.recovery.plan.file import write_plan
from breakglass.services.recovery.plan.partition_file import Election, write_elections
from tests.kit.plans import read_plan, render_plan
from tests.screens.plan.plan_consoles import LEDGER_3, planned, planning
from tests.unit.recovery.plans import SAFE
from tests.unit.recovery.plans import planned as planned_of

ROOT = Path(__file__).parents[3]
SUSPEND = BreakglassApp.suspend
CHECKED = "read again and checked"
NO_PLANS = {
    b"{": "line 1, column 2",
    b'{"partitions": []}': "names no partition",
    b"\xff": "UTF-8",
}


@pytest.fixture
def plan_file(tmp_path: Path) -> Path:
    return tmp_path / "plan.json"


def test_the_screen_is_imported_without_the_plan() -> None:
    probe = "import breakglass.screens.plan, sys; print('pydantic' in sys.modules)"
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.stdout.strip() == "False", done.stderr


async def test_a_plan_is_saved_over_its_own_file_alone_and_gives_way_to_no_other_unasked(
    plan_file: Path,
) -> None:
    async with planned() as page:
        await page.ask("s", Prompt)
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
        found = await page.ask("v", ProblemsDialog)
        (problem,) = found._problems
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
