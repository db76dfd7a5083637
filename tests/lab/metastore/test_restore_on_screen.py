"""The guarded restore of the console, on a real broker."""

from __future__ import annotations

from pathlib import Path

import pytest

from breakglass.screens.metastore.restore import RestoreScreen
from breakglass.services.session import Power
from tests.kit.incidents import incident_of
from tests.lab.metastore.commands import access_to, backed_up
from tests.lab.metastore.topics import CommandTopic
from tests.screens.consoles import console_on
from tests.screens.turns import text, until
from tests.unit.metastore.generating import Generator

pytestmark = pytest.mark.slow


async def test_a_restore_takes_the_phrase_and_says_how_it_ended(
    topic: CommandTopic, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tests.screens.turns.DEADLINE_SECONDS", 45.0)
    written = topic.produce(Generator(95).records(6))
    file = folder / str(backed_up(topic, folder).last["file"])
    topic.delete()
    topic.create()
    other = topic.produce(Generator(96).records(2))
    before = topic.id
    access = access_to(topic.cluster)
    console = console_on(
        incident_of(), access=access, power=Power(access), state_folder=tmp_path / "state"
    )
    async with console.run_test(size=(100, 30), notifications=True) as pilot:
        screen = RestoreScreen(console.context, topic.service_id, file)
        await console.push_screen(screen)
        await until(pilot, lambda: "lose 2" in text(console), "the price")
        assert "cannot be known" in text(console)
        await pilot.press("x", "enter")
        await until(pilot, lambda: "not the phrase" in text(console), "the refusal")
        assert topic.id == before
        assert topic.read() == other
        await pilot.press("escape", *f"{topic.name} lose 2", "enter")
        await until(pilot, lambda: "6 commands restored, identical" in text(console), "the end")
        await pilot.press("escape")
        await until(pilot, lambda: console.screen is not screen, "the way back")
    assert topic.read() == written
    (snapshot,) = (folder / "before-restore").glob("*/*.bak")
    assert snapshot.exists()
    assert list((tmp_path / "state" / "journal").rglob("*.jsonl"))
