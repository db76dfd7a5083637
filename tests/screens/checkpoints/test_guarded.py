"""Taking, deleting and restoring checkpoints under guard: each key, each way it can end."""

import json
import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from breakglass.screens.guard import ActPage, RestorePage, TakePage
from breakglass.screens.messages import CopyAsked, MutationBegan, MutationEnded
from breakglass.screens.widgets.consent import Cancel, ConsentField
from breakglass.screens.widgets.dialog import Prompt
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.errors import (
    AlreadyRunning,
    ClusterError,
    OutcomeUnknown,
    Refused,
    StorageError,
)
from breakglass.services.guard.act import TargetOutcome, TargetResult, Underway
from breakglass.services.guard.consent import ConsentPhrase
from breakglass.services.guard.journal import Journal
from tests.kit.waiting import DEADLINE_SECONDS
from tests.screens.checkpoints.guarding import (
    DONE,
    FROZEN,
    PHRASE,
    TARGETS,
    CannedAct,
    armed_on,
    changed,
    raising,
)
from tests.screens.checkpoints.held import Canned, bank, canned, checkpoints_of, seen
from tests.screens.consoles import Asked
from tests.screens.drawing import LOOKS, Drawn, Look, at_rest, stopped_clock
from tests.screens.turns import lines, notices, opens, text, until
from tests.screens.turns import shows as shown

SIZE = (100, 30)
PLAIN = Look("breakglass-dark", SIZE)
DELETION = "delete checkpoint 1 completed"


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return bank(tmp_path / "store")


@pytest.fixture
def watch(store: BackupStore) -> Canned:
    return canned(seen(store, store.address))


@asynccontextmanager
async def listed(watch: Canned, look: Look = PLAIN, **options: Any) -> AsyncIterator[Pilot[Any]]:
    """The list of a console that may write, with the cursor on its last line."""
    console = armed_on(watch, theme=look.theme, **options)
    async with console.run_test(size=look.size, notifications=True) as pilot:
        await shown(pilot, "▸1" if watch.stores else "--store checkpoint:URL")
        await pilot.press("end")
        yield pilot


async def asks(pilot: Pilot[Any], act: CannedAct, words: str = PHRASE) -> None:
    """Open the page of *act*, until its phrase is asked for, or it shows *words*."""
    await pilot.app.push_screen(ActPage(pilot.app.context, act))  # type: ignore[attr-defined]
    await shown(pilot, words)


async def leaves(pilot: Pilot[Any]) -> None:
    await pilot.press("escape")
    await is_left(pilot)


def journalled(folder: Path) -> list[dict[str, Any]]:
    path = max(folder.rglob("*.jsonl"))
    return [json.loads(line) for line in path.read_text().splitlines()]


async def is_left(pilot: Pilot[Any]) -> None:
    await until(pilot, lambda: len(pilot.app.screen_stack) == 1, "the list again")


class Held:
    """Holds *act* before *what*, once it was called so often, until it may go on."""

    def __init__(self, act: CannedAct, what: str, after: int) -> None:
        self._act, self._what, self._after = act, what, after
        self.come, self.go = threading.Event(), threading.Event()
        act.hold = self

    def __call__(self, what: str) -> None:
        if what == self._what and self._act.calls.count(what) == self._after:
            self.come.set()
            assert self.go.wait(DEADLINE_SECONDS)


async def agree(pilot: Pilot[Any], phrase: str = PHRASE) -> None:
    """Type *phrase* and give it, but for the first keys all at once."""
    await pilot.press(*phrase[:3])
    pilot.app.screen.query_one(ConsentField).type(phrase[3:], at=0.0)
    await pilot.press("enter")


async def test_before_consent_all_is_shown_and_nothing_but_the_typed_phrase_agrees() -> None:
    act = CannedAct()
    async with listed(canned()) as pilot:
        await asks(pilot, act)
        for words in ("6 in /checkpoints/bank", "tellers exactly-once", "bank-0 at 55 of 60"):
            assert words in text(pilot.app)
        assert sum("asked" in line for line in lines(pilot.app)) == len(TARGETS)
        await until(pilot, lambda: isinstance(pilot.app.focused, Cancel), "the focus on Cancel")
        await pilot.press("tab")
        assert isinstance(pilot.app.focused, ConsentField)
        await pilot.press("tab", "enter")
        await is_left(pilot)
        await asks(pilot, act)
        await agree(pilot, "write 2 markers")
        await shown(pilot, "nothing was done")
        await pilot.press("escape")
        pilot.app.post_message(Paste(PHRASE))
        await shown(pilot, "Pasting is refused here")
        await pilot.press("enter")
        await shown(pilot, "That is not the phrase")
        await pilot.press("escape")
        await leaves(pilot)
        assert act.calls == ["freeze"] * 2

        for error in (Refused("choose another"), ValueError("an odd one")):
            await asks(pilot, CannedAct([error]), str(error))
            assert pilot.app.screen.query_one(ConsentField).disabled
            await leaves(pilot)

        many = tuple(f"bank-{number}" for number in range(50))
        await asks(pilot, CannedAct([replace(FROZEN, targets=many)]))
        await pilot.press("pagedown", "pagedown", "pagedown", "pagedown", "down")
        await shown(pilot, "bank-49")
        await pilot.press("pageup", "pageup", "pageup", "pageup", "up")
        await shown(pilot, "bank-0 ")
        await leaves(pilot)

        bad = "\x1b[2J[red]orders"
        phrases, facts = (ConsentPhrase(f"take {bad}"),), ((bad, bad),)
        frozen = replace(FROZEN, asked=phrases, facts=facts, targets=(bad,), remarks=(bad,))
        await asks(pilot, CannedAct([frozen]), "[red]orders")
        assert "\x1b" not in text(pilot.app)
        await leaves(pilot)

        await pilot.press("t")
        await until(
            pilot, lambda: text(pilot.app).count("--store checkpoint:URL") == 2, "the sentence"
        )


UNKNOWN = tuple(TargetOutcome(target, TargetResult.UNKNOWN, "no answer") for target in TARGETS)
FAILED = (TargetOutcome("bank-1", TargetResult.FAILED, "not allowed"),)


async def test_after_consent_it_is_read_again_then_done_and_each_end_is_called_what_it_is() -> None:
    act = CannedAct(left="checkpoint 6 is completed")
    async with listed(canned()) as pilot:
        began, ended = Asked(pilot.app, MutationBegan), Asked(pilot.app, MutationEnded)
        await asks(pilot, act)
        await agree(pilot)
        await shown(pilot, act.left)
        assert (len(began.messages), len(ended.messages)) == (1, 1)
        assert sum("started at 110" in line for line in lines(pilot.app)) == len(TARGETS)
        for words in ("/state/journal/6.jsonl", "is acknowledged"):
            assert words in text(pilot.app)
        assert act.calls == ["freeze", "freeze", "carry out", "follow"]
        await leaves(pilot)

        other = CannedAct([FROZEN, changed(Topics="bank (4 partitions)")])
        await asks(pilot, other)
        await agree(pilot)
        await shown(pilot, "Changed since you agreed")
        await shown(pilot, "it is bank (4 partitions)")
        assert other.calls == ["freeze", "freeze"]
        assert isinstance(pilot.app.focused, Cancel)
        await agree(pilot)
        await shown(pilot, "is acknowledged")
        assert other.calls == ["freeze", "freeze", "freeze", "carry out", "follow"]
        await leaves(pilot)

        failing = CannedAct(events=FAILED, failure=ClusterError("grant WRITE on topic bank"))
        await asks(pilot, failing)
        await agree(pilot)
        for words in ("grant WRITE", "failed: not allowed", "Failed"):
            await shown(pilot, words)
        rows = [line.lstrip(">│ ") for line in lines(pilot.app) if line.lstrip("> ")[:5] == "bank-"]
        assert rows[0].startswith("bank-1"), "what needs the operator comes first"
        assert "follow" not in failing.calls
        await leaves(pilot)

        for error in (OutcomeUnknown("look at it"), StorageError("look at it")):
            await asks(pilot, CannedAct(events=UNKNOWN, failure=error))
            await agree(pilot)
            await shown(pilot, "look at it")
            assert sum("unknown: no answer" in line for line in lines(pilot.app)) == len(TARGETS)
            assert "Unknown" in text(pilot.app)
            assert "Failed" not in text(pilot.app)
            await leaves(pilot)

        await asks(pilot, CannedAct(locked=AlreadyRunning("another recovery runs")))
        await agree(pilot)
        await shown(pilot, "another recovery runs")
        assert pilot.app.screen.query_one(ConsentField).disabled


async def test_while_it_runs_there_is_no_way_back_and_before_it_can_be_given_up() -> None:
    act = CannedAct(events=(Underway("bank: 5 of 60 records"),))
    held = Held(act, "carry out", 0)
    async with listed(canned()) as pilot:
        await asks(pilot, act)
        await agree(pilot)
        await until(pilot, held.come.is_set, "it to begin")
        await pilot.press("escape")
        page = pilot.app.screen
        assert isinstance(page, ActPage)
        assert page.unsaved()
        held.go.set()
        await shown(pilot, "is acknowledged")
        assert not page.unsaved()
        await leaves(pilot)

        act = CannedAct()
        held = Held(act, "freeze", 1)
        await asks(pilot, act)
        await agree(pilot)
        await until(pilot, held.come.is_set, "it to be read again")
        await pilot.press("escape")
        await shown(pilot, "cancelling")
        held.go.set()
        await shown(pilot, "Cancelled")
        assert "carry out" not in act.calls


async def test_x_deletes_the_checkpoint_under_the_cursor_as_it_was_when_the_phrase_was_typed(
    store: BackupStore, watch: Canned, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    state = tmp_path / "state"
    async with listed(watch, state=state) as pilot:
        # The store does not answer.
        with monkeypatch.context() as patched:
            patched.setattr(BackupStore, "delete", raising(StorageError("s3://far: no answer")))
            await pilot.press("x")
            await shown(pilot, DELETION)
            await agree(pilot, DELETION)
            await until(
                pilot, lambda: text(pilot.app).count("unknown: s3://far") == 3, "unknown outcomes"
            )
        assert journalled(state)[-1]["result"] == "unknown"
        await leaves(pilot)

        # Something else changes the same store.
        await pilot.press("x")
        await shown(pilot, DELETION)
        with Journal.open(f"store {store.address}", state):
            await agree(pilot, DELETION)
            await shown(pilot, "Nothing was done")
        assert store.read(1) is not None
        await leaves(pilot)

        await pilot.press("x")
        await shown(pilot, DELETION)
        await shown(pilot, "checkpoint 3 is the newest")
        await agree(pilot, DELETION)
        await shown(pilot, "checkpoint 1 is deleted")
        assert sum("done: deleted" in line for line in lines(pilot.app)) == 3
        assert store.read(1) is None
        assert store.ids() == [1, 2, 3, 4, 5]
        entries = journalled(state)
        kinds = [entry["kind"] for entry in entries]
        assert kinds == ["opened", "consent", "request", "outcome", "closed"]
        assert entries[1]["phrase"] == DELETION
        assert [entry["result"] for entry in entries[3]["items"]] == ["done"] * 3
        assert entries[4]["result"] == "succeeded"
        await leaves(pilot)

        # Checkpoint 3 fails between the question and the answer.
        phrase = "delete checkpoint 3 completed"
        await pilot.press("end", "up", "up", "x")
        await shown(pilot, phrase)
        store.fail_checkpoint(3, "found out later")
        await agree(pilot, phrase)
        await shown(pilot, "it is failed")
        assert store.read(3) is not None
        assert journalled(state)[-1]["result"] == "nothing done"


async def test_t_and_capital_r_ask_what_the_commands_do_and_a_failing_look_is_told(
    watch: Canned, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listed(watch) as pilot:
        for key in ("t", "R"):
            await pilot.press(key)
            await opens(pilot, Prompt)
            await pilot.press("escape", "escape")
            await is_left(pilot)
        await pilot.press("t")
        await shown(pilot, "--topics bank --group")
        await pilot.press(*" --level", "enter")
        await shown(pilot, "requires an argument")
        await pilot.press("ctrl+u", *"--group a=b", "enter")
        await shown(pilot, "'--topics'")
        await pilot.press("ctrl+u", *"--topics bank", "enter")
        await opens(pilot, TakePage)
        await pilot.app.pop_screen()
        await pilot.press("R")
        await shown(pilot, "--suffix -restored")
        await pilot.press("ctrl+u", *"--map bank", "enter")
        await shown(pilot, "not written OLD=NEW")
        await pilot.press(*"=bank2", "enter")
        await opens(pilot, RestorePage)
        await pilot.app.pop_screen()

        monkeypatch.setattr(Canned, "look", raising(ValueError("odd")))  # type: ignore[arg-type]
        await pilot.press("ctrl+r")
        await shown(pilot, "(ValueError: odd)")
        assert "▸1" in text(pilot.app)
        await pilot.press("home")
        for number, key in enumerate(("x", "R"), 1):
            await pilot.press(key)
            await until(
                pilot,
                lambda number=number: notices(pilot.app).count("No checkpoint is under") == number,  # type: ignore[misc]
                "a notice",
            )


async def test_without_write_the_command_is_copied_and_nothing_opens(
    store: BackupStore, watch: Canned
) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await shown(pilot, "▸1")
        copied = Asked(console, CopyAsked)
        await pilot.press("end", "x", "R", "t")
        await until(pilot, lambda: len(copied.messages) == 3, "the commands")
        at = f"--store {store.address}"
        assert [message.text.removeprefix("breakglass ") for message in copied.messages] == [
            f"checkpoint prune 1 {at} --write",
            f"checkpoint restore 1 {at} --suffix -restored --write",
            f"checkpoint take {at} --topics bank --group tellers=exactly-once "
            "--level coordinated --write",
        ]
        assert len(console.screen_stack) == 1


@pytest.mark.parametrize("look", LOOKS)
async def test_what_is_agreed_to_and_how_it_ended_look_as_before(
    look: Look, drawn_as_before: Drawn
) -> None:
    outcomes = (*DONE, TargetOutcome("bank-1", TargetResult.UNKNOWN, "no answer"))
    act = CannedAct(events=outcomes, left="checkpoint 6 is completed")
    async with listed(canned(), look, clock=stopped_clock) as pilot:
        await asks(pilot, act)
        await pilot.press(*PHRASE[:9])
        await at_rest(pilot)
        drawn_as_before(pilot.app)
        pilot.app.screen.query_one(ConsentField).type(PHRASE[9:], at=0.0)
        await pilot.press("enter")
        await shown(pilot, act.left)
        await at_rest(pilot)
        drawn_as_before(pilot.app)
