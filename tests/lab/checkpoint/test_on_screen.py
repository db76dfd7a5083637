"""The guarded steps of the Checkpoints screen on a real broker: take, restore, delete."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from textual.pilot import Pilot

from breakglass.console.checkpoint_text import CommandText
from breakglass.screens.checkpoints.acts import DeletePage, RestorePage, TakePage
from breakglass.screens.guard.page import ActPage
from breakglass.screens.widgets.consent import ConsentField
from breakglass.services.checkpoint.participant.application import Guarantee
from breakglass.services.checkpoint.protocol.values import Status
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.lab.cluster import Cluster
from breakglass.services.session import Power, ReadAccess
from tests.kit.incidents import nothing_offline
from tests.lab.checkpoint.bank import books
from tests.lab.checkpoint.branch import SECONDS, Branch
from tests.screens.consoles import console_on
from tests.screens.turns import lines, text, until


@pytest.fixture
def bank(broker: Cluster, tmp_path: Path) -> Branch:
    """Three accounts; their members commit within transactions."""
    name = f"screen-{tmp_path.name.replace('_', '-')[-60:]}"
    return Branch(broker, name, Guarantee.EXACTLY_ONCE, 3, f"control-{name}").open()


@pytest.fixture(autouse=True)
def _patient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tests.screens.turns.DEADLINE_SECONDS", 4 * SECONDS)


async def shown(pilot: Pilot[Any], words: str) -> None:
    await until(pilot, lambda: words in text(pilot.app), words)


async def agreed(pilot: Pilot[Any], page: ActPage, phrase: str) -> None:
    """Show *page*, which must ask for *phrase*, and type that."""
    await pilot.app.push_screen(page)
    await shown(pilot, phrase)
    await pilot.press(*phrase[:3])
    page.query_one(ConsentField).type(phrase[3:])
    await pilot.press("enter")


def results(folder: Path) -> list[tuple[str, set[str]]]:
    """Each journal's last word, and what its steps say of partitions; the oldest first."""
    found = []
    for path in sorted((folder / "journal").rglob("*.jsonl")):
        entries = [json.loads(line) for line in path.read_text().splitlines()]
        items = [one for entry in entries for one in entry.get("items", ()) if "result" in one]
        found.append((entries[-1]["result"], {item["result"] for item in items}))
    return found


@pytest.mark.slow
@pytest.mark.timeout(600)
async def test_a_checkpoint_is_taken_restored_and_deleted_on_screen(
    bank: Branch, access: ReadAccess, store: BackupStore, tmp_path: Path
) -> None:
    state = tmp_path / "state"
    power = Power(access)
    console = console_on(nothing_offline(), access=access, power=power, state_folder=state)
    of_bank = f"--topics {bank.topic} --group {bank.group}=exactly-once"
    control = f"--control-topic {bank.control}"
    async with console.run_test(size=(120, 40)) as pilot:
        with bank.working(1):
            bank.order(60, hops=10)
            page = TakePage(
                console.context, store.address, CommandText().take(f"{of_bank} {control}")
            )
            await agreed(pilot, page, "write 3 markers")
            await shown(pilot, "checkpoint 1 is completed")
        assert sum("done: copy completed" in line for line in lines(console)) == 3
        to = CommandText().restore(f"--suffix -again {control}")
        found = store.read(1)
        assert found is not None
        assert found.status is Status.COMPLETED
        restoring = RestorePage(console.context, store.address, 1, to)
        await console.push_screen(restoring)
        await shown(pilot, "restore checkpoint 1 with ")
        phrase = restoring.query_one(ConsentField).wanted
        restoring.query_one(ConsentField).focus()
        restoring.query_one(ConsentField).type(phrase)
        await pilot.press("enter")
        await shown(pilot, "Restored completely")
        assert sum("records, identical" in line for line in lines(console)) == 3
        deleting = DeletePage(console.context, store.address, 1)
        await agreed(pilot, deleting, "delete checkpoint 1 completed")
        await shown(pilot, "checkpoint 1 is deleted")
    assert store.read(1) is None
    restored = bank.restored(f"{bank.topic}-again")
    restored.order(10)
    again = books(restored.settle())
    assert (again.total, again.doubled, again.lost) == (bank.total, (), ())
    assert results(state) == [
        ("succeeded", {"done"}),
        ("succeeded", {"moved", "restored"}),
        ("succeeded", {"done"}),
    ]


@pytest.mark.timeout(300)
async def test_a_checkpoint_that_somebody_else_takes_meanwhile_takes_another_consent(
    bank: Branch, access: ReadAccess, store: BackupStore, power: Power, tmp_path: Path
) -> None:
    console = console_on(
        nothing_offline(), access=access, power=power, state_folder=tmp_path / "state"
    )
    asked = CommandText().take(
        f"--topics {bank.topic} --level vector --control-topic {bank.control}"
    )
    async with console.run_test(size=(120, 40)) as pilot:
        page = TakePage(console.context, store.address, asked)
        await console.push_screen(page)
        await shown(pilot, "copy 3 partitions")
        taken = TakePage(console.context, store.address, asked)
        await agreed(pilot, taken, "copy 3 partitions")
        await shown(pilot, "checkpoint 1 is completed")
        await pilot.press("escape")
        await until(pilot, lambda: console.screen is page, "the first page")
        page.query_one(ConsentField).focus()
        page.query_one(ConsentField).type("copy 3 partitions")
        await pilot.press("enter")
        await until(pilot, lambda: "it is 2 in" in " ".join(text(console).split()), "the change")
    assert store.ids() == [1]


@pytest.mark.timeout(300)
async def test_what_cannot_be_made_consistent_has_failed_with_the_reason(
    bank: Branch, access: ReadAccess, store: BackupStore, power: Power, tmp_path: Path
) -> None:
    bank.settle()
    bank.order(3)
    console = console_on(
        nothing_offline(), access=access, power=power, state_folder=tmp_path / "state"
    )
    of_bank = f"--topics {bank.topic} --group {bank.group}=exactly-once --drain 1"
    asked = CommandText().take(f"{of_bank} --control-topic {bank.control}")
    async with console.run_test(size=(120, 40)) as pilot:
        page = TakePage(console.context, store.address, asked)
        await agreed(pilot, page, "write 3 markers")
        await shown(pilot, "not drained in time")
        assert "lags" in text(console)
    found = store.read(1)
    assert found is not None
    assert found.status is Status.FAILED
