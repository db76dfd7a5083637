"""Taking, deleting and restoring checkpoints under guard: each key, each way it can end."""

from __future__ import annotations

import json
import threading
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from textual.events import Paste
from textual.pilot import Pilot

from breakglass.screens.checkpoints.acts import RestorePage, TakePage
from breakglass.screens.guard.page import ActPage
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
from tests.screens.turns import lines, opens, text, until
from tests.screens.turns import shows as shown

SIZE = (100, 30)
PLAIN = Look("breakglass-dark", SIZE)
DELETION = "delete checkpoint 1 completed"


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    return bank(tmp_path / "store")


@pytest.fixture
def watch(store: BackupStore) -> Canned:
    """The bank's store under its real address."""
    return canned(seen(store, store.address))


@pytest.fixture
def act() -> CannedAct:
    return CannedAct()


@asynccontextmanager
async def asked(
    act: CannedAct, words: str = PHRASE, look: Look = PLAIN, **options: Any
) -> AsyncIterator[Pilot[Any]]:
    """The page of *act*, with its phrase asked for, or whatever *words* it shows."""
    console = armed_on(canned(), theme=look.theme, **options)
    async with console.run_test(size=look.size) as pilot:
        await console.push_screen(ActPage(console.context, act))
        await shown(pilot, words)
        yield pilot


@asynccontextmanager
async def listed(watch: Canned, *keys: str, **options: Any) -> AsyncIterator[Pilot[Any]]:
    """The list with the cursor on its last line, checkpoint 1, after *keys*."""
    async with armed_on(watch, **options).run_test(size=SIZE, notifications=True) as pilot:
        await shown(pilot, "▸1")
        await pilot.press("end", *keys)
        yield pilot


@pytest.fixture
def deleting(watch: Canned, tmp_path: Path) -> Callable[[], Any]:
    """Opens the page that deletes checkpoint 1."""

    @asynccontextmanager
    async def opened() -> AsyncIterator[Pilot[Any]]:
        async with listed(watch, "x", state=tmp_path / "state") as pilot:
            await shown(pilot, DELETION)
            yield pilot

    return opened


def journalled(folder: Path) -> list[dict[str, Any]]:
    """The entries of the one journal below *folder*."""
    (path,) = folder.rglob("*.jsonl")
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
    pilot.app.screen.query_one(ConsentField).type(phrase[3:])
    await pilot.press("enter")


# Before consent.


async def test_target_and_evidence_are_shown_and_cancel_is_focused(act: CannedAct) -> None:
    async with asked(act) as pilot:
        for words in ("6 in /checkpoints/bank", "tellers exactly-once", "bank-0 at 55 of 60"):
            assert words in text(pilot.app)
        assert sum("asked" in line for line in lines(pilot.app)) == len(TARGETS)
        await until(pilot, lambda: isinstance(pilot.app.focused, Cancel), "the focus on Cancel")
        await pilot.press("tab")
        assert isinstance(pilot.app.focused, ConsentField)
        await pilot.press("tab", "enter")
        await is_left(pilot)
    async with asked(act) as pilot:
        await pilot.press("escape")
        await is_left(pilot)
    assert act.calls == ["freeze", "freeze"]


async def test_another_phrase_does_nothing_and_pasting_is_refused(act: CannedAct) -> None:
    async with asked(act) as pilot:
        await agree(pilot, "write 2 markers")
        await shown(pilot, "nothing was done")
        await pilot.press("escape")
        pilot.app.post_message(Paste(PHRASE))
        await shown(pilot, "Pasting is refused here")
        await pilot.press("enter")
        await shown(pilot, "That is not the phrase")
    assert act.calls == ["freeze"]


async def test_what_cannot_be_done_asks_for_nothing() -> None:
    for error, words in ((Refused("choose another"), "choose another"), (ValueError("odd"), "odd")):
        async with asked(CannedAct([error]), words) as pilot:
            assert pilot.app.screen.query_one(ConsentField).disabled


async def test_the_partitions_can_be_looked_through_while_the_phrase_has_the_keys() -> None:
    many = tuple(f"bank-{number}" for number in range(50))
    async with asked(CannedAct([replace(FROZEN, targets=many)])) as pilot:
        await pilot.press("pagedown", "pagedown", "pagedown", "pagedown", "down")
        await shown(pilot, "bank-49")
        await pilot.press("pageup", "pageup", "pageup", "pageup", "up")
        await shown(pilot, "bank-0 ")


# After it.


async def test_after_consent_it_is_read_again_then_done_and_shown_by_partition(
    act: CannedAct,
) -> None:
    act.left = "checkpoint 6 is completed"
    async with asked(act) as pilot:
        began, ended = Asked(pilot.app, MutationBegan), Asked(pilot.app, MutationEnded)
        await agree(pilot)
        await shown(pilot, act.left)
        assert (len(began.messages), len(ended.messages)) == (1, 1)
        assert sum("started at 110" in line for line in lines(pilot.app)) == len(TARGETS)
        for words in ("/state/journal/6.jsonl", "is acknowledged"):
            assert words in text(pilot.app)
    assert act.calls == ["freeze", "freeze", "carry out", "follow"]


async def test_what_has_changed_since_is_refused_and_asked_for_anew(act: CannedAct) -> None:
    act.looks = [FROZEN, changed(Topics="bank (4 partitions)")]
    async with asked(act) as pilot:
        await agree(pilot)
        await shown(pilot, "Changed since you agreed")
        await shown(pilot, "it is bank (4 partitions)")
        assert act.calls == ["freeze", "freeze"]
        assert isinstance(pilot.app.focused, Cancel)
        await agree(pilot)
        await shown(pilot, "is acknowledged")
    assert act.calls == ["freeze", "freeze", "freeze", "carry out", "follow"]


async def test_a_failure_is_shown_as_one(act: CannedAct) -> None:
    act.events = (TargetOutcome("bank-1", TargetResult.FAILED, "not allowed"),)
    act.failure = ClusterError("grant WRITE on topic bank")
    async with asked(act) as pilot:
        await agree(pilot)
        for words in ("grant WRITE", "failed: not allowed", "Failed"):
            await shown(pilot, words)
        rows = [line.lstrip(">│ ") for line in lines(pilot.app) if line.lstrip("> ")[:5] == "bank-"]
        assert rows[0].startswith("bank-1"), "what needs the operator comes first"
    assert "follow" not in act.calls


@pytest.mark.parametrize("error", [OutcomeUnknown("look at it"), StorageError("look at it")])
async def test_no_answer_is_unknown_and_never_failed(act: CannedAct, error: Exception) -> None:
    act.events = tuple(
        TargetOutcome(target, TargetResult.UNKNOWN, "no answer") for target in TARGETS
    )
    act.failure = error
    async with asked(act) as pilot:
        await agree(pilot)
        await shown(pilot, "look at it")
        assert sum("unknown: no answer" in line for line in lines(pilot.app)) == len(TARGETS)
        assert "Unknown" in text(pilot.app)
        assert "Failed" not in text(pilot.app)


async def test_a_second_attempt_is_refused_and_not_queued(act: CannedAct) -> None:
    act.locked = AlreadyRunning("another recovery runs")
    async with asked(act) as pilot:
        await agree(pilot)
        await shown(pilot, "another recovery runs")
        assert pilot.app.screen.query_one(ConsentField).disabled


async def test_while_it_runs_there_is_no_way_back(act: CannedAct) -> None:
    held = Held(act, "carry out", 0)
    act.events = (Underway("bank: 5 of 60 records"),)
    async with asked(act) as pilot:
        await agree(pilot)
        await until(pilot, held.come.is_set, "it to begin")
        await pilot.press("escape")
        page = pilot.app.screen
        assert isinstance(page, ActPage)
        assert page.unsaved()
        held.go.set()
        await shown(pilot, "is acknowledged")
        assert not page.unsaved()
        await pilot.press("escape")
        await is_left(pilot)


async def test_what_is_given_up_while_it_is_read_again_is_not_done(act: CannedAct) -> None:
    held = Held(act, "freeze", 1)
    async with asked(act) as pilot:
        await agree(pilot)
        await until(pilot, held.come.is_set, "it to be read again")
        await pilot.press("escape")
        await shown(pilot, "cancelling")
        held.go.set()
        await shown(pilot, "Cancelled")
    assert "carry out" not in act.calls


# The keys of the list.


async def test_x_deletes_the_checkpoint_under_the_cursor(
    store: BackupStore, deleting: Callable[[], Any], tmp_path: Path
) -> None:
    async with deleting() as pilot:
        await shown(pilot, "checkpoint 3 is the newest")
        await agree(pilot, DELETION)
        await shown(pilot, "checkpoint 1 is deleted")
        assert sum("done: deleted" in line for line in lines(pilot.app)) == 3
    assert store.read(1) is None
    assert store.ids() == [1, 2, 3, 4, 5]
    entries = journalled(tmp_path / "state")
    kinds = [entry["kind"] for entry in entries]
    assert kinds == ["opened", "consent", "request", "outcome", "closed"]
    assert entries[1]["phrase"] == DELETION
    assert [entry["result"] for entry in entries[3]["items"]] == ["done"] * 3
    assert entries[4]["result"] == "succeeded"


async def test_a_checkpoint_that_has_failed_since_takes_another_phrase(
    store: BackupStore, deleting: Callable[[], Any], tmp_path: Path
) -> None:
    async with deleting() as pilot:
        store.fail_checkpoint(1, "found out later")
        await agree(pilot, DELETION)
        await shown(pilot, "it is failed")
    assert store.read(1) is not None
    assert journalled(tmp_path / "state")[-1]["result"] == "nothing done"


async def test_a_store_that_does_not_answer_leaves_a_deletion_unknown(
    deleting: Callable[[], Any], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(BackupStore, "delete", raising(StorageError("s3://far: no answer")))
    async with deleting() as pilot:
        await agree(pilot, DELETION)
        await until(
            pilot, lambda: text(pilot.app).count("unknown: s3://far") == 3, "unknown outcomes"
        )
    assert journalled(tmp_path / "state")[-1]["result"] == "unknown"


async def test_what_changes_the_same_store_elsewhere_keeps_a_deletion_out(
    store: BackupStore, deleting: Callable[[], Any], tmp_path: Path
) -> None:
    async with deleting() as pilot:
        with Journal.open(f"store {store.address}", tmp_path / "state"):
            await agree(pilot, DELETION)
            await shown(pilot, "Nothing was done")
    assert store.read(1) is not None


async def test_t_asks_what_of_as_the_command_does_and_opens_the_page(watch: Canned) -> None:
    async with listed(watch, "t") as pilot:
        await shown(pilot, "--topics bank --group")
        await opens(pilot, Prompt)
        await pilot.press(*" --level", "enter")
        await shown(pilot, "requires an argument")
        await pilot.press("ctrl+u", *"--group a=b", "enter")
        await shown(pilot, "'--topics'")
        await pilot.press("ctrl+u", *"--topics bank", "enter")
        await opens(pilot, TakePage)


async def test_capital_r_asks_for_new_names_and_opens_the_page(watch: Canned) -> None:
    async with listed(watch) as pilot:
        for key in ("t", "R"):
            await pilot.press(key)
            await opens(pilot, Prompt)
            await pilot.press("escape", "escape")
            await is_left(pilot)
        await pilot.press("R")
        await shown(pilot, "--suffix -restored")
        await pilot.press("ctrl+u", *"--map bank", "enter")
        await shown(pilot, "not written OLD=NEW")
        await pilot.press(*"=bank2", "enter")
        await opens(pilot, RestorePage)


@pytest.mark.parametrize(
    ("key", "command"),
    [
        ("x", "delete 1 --store {store} --write"),
        ("R", "restore 1 --store {store} --suffix -restored --write"),
        (
            "t",
            "take --store {store} --topics bank --group tellers=exactly-once "
            "--level coordinated --write",
        ),
    ],
)
async def test_without_write_the_command_is_copied_and_nothing_opens(
    store: BackupStore, watch: Canned, key: str, command: str
) -> None:
    console = checkpoints_of(watch)
    async with console.run_test(size=SIZE) as pilot:
        await shown(pilot, "▸1")
        copied = Asked(console, CopyAsked)
        await pilot.press("end", key)
        await until(pilot, lambda: copied.messages, "the command")
        told = command.format(store=store.address)
        assert copied.messages[0].text == f"breakglass checkpoint {told}"
        assert len(console.screen_stack) == 1


async def test_on_a_store_or_without_one_there_is_nothing_to_delete_restore_or_take(
    watch: Canned,
) -> None:
    for key in ("x", "R"):
        async with listed(watch, "home", key) as pilot:
            await shown(pilot, "No checkpoint is under")
    console = armed_on(canned())
    async with console.run_test(size=SIZE, notifications=True) as pilot:
        await shown(pilot, "--store checkpoint:URL")
        await pilot.press("t")
        await until(
            pilot, lambda: text(console).count("--store checkpoint:URL") == 2, "the sentence"
        )


async def test_a_look_that_fails_unexpectedly_is_told_and_keeps_what_was_known(
    watch: Canned, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with listed(watch) as pilot:
        monkeypatch.setattr(Canned, "look", raising(ValueError("odd")))  # type: ignore[arg-type]
        await pilot.press("ctrl+r")
        await shown(pilot, "(ValueError: odd)")
        assert "▸1" in text(pilot.app)


async def test_names_from_a_store_are_drawn_harmlessly() -> None:
    hostile = "\x1b[2J[red]orders"
    frozen = replace(
        FROZEN,
        asked=(ConsentPhrase(f"take {hostile}"),),
        facts=((hostile, hostile),),
        targets=(hostile,),
        remarks=(hostile,),
    )
    async with asked(CannedAct([frozen]), "[red]orders") as pilot:
        assert "\x1b" not in text(pilot.app)


@pytest.mark.parametrize("look", LOOKS)
async def test_what_is_agreed_to_looks_as_before(
    look: Look, act: CannedAct, drawn_as_before: Drawn
) -> None:
    async with asked(act, look=look, clock=stopped_clock) as pilot:
        await pilot.press(*"write 3 m")
        await at_rest(pilot)
        drawn_as_before(pilot.app)


@pytest.mark.parametrize("look", LOOKS)
async def test_how_it_ended_looks_as_before(
    look: Look, act: CannedAct, drawn_as_before: Drawn
) -> None:
    act.events = (*act.events, TargetOutcome("bank-1", TargetResult.UNKNOWN, "no answer"))
    act.left = "checkpoint 6 is completed"
    async with asked(act, look=look, clock=stopped_clock) as pilot:
        await agree(pilot)
        await shown(pilot, act.left)
        await at_rest(pilot)
        drawn_as_before(pilot.app)
