"""Saving what an election would cut off, without electing anybody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from breakglass.screens.messages import CopyAsked
from breakglass.screens.offline.rescue import RescueScreen, prepare
from breakglass.services.recovery.guarded import rescuing
from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress, Saved
from breakglass.services.recovery.rescue.spans import AtRisk, Span
from tests.kit.incidents import LEDGER, every_verdict, incident_of, lossless, waiting
from tests.screens.offline.offline_console import Asked, opened, shown_list
from tests.screens.turns import text, until

PATIENCE = 10.0


@dataclass
class HeldRescuer:
    """Tells its progress, and ends when the test lets it, or when it is stopped."""

    stop: Callable[[], bool] = lambda: False
    progress: Callable[[RescueProgress], None] = lambda _: None
    release: threading.Event = field(default_factory=threading.Event)
    fails: bool = False

    def rescue(self, at_risk: Sequence[AtRisk], folder: Path) -> tuple[RescuedPartition, ...]:
        self.progress(RescueProgress(folder, len(at_risk), 20, 50))
        for _ in range(1_000):
            if self.release.wait(PATIENCE / 1_000):
                break
            if self.stop():
                return tuple(
                    RescuedPartition(risk.partition, risk.designee, reason="stopped on request")
                    for risk in at_risk
                )
        saved = Saved(2, (Span(100, 150),), 50, 4_000, folder / "b2" / "ledger" / "3")
        return tuple(RescuedPartition(risk.partition, risk.designee, (saved,)) for risk in at_risk)


@pytest.fixture
def rescuer(monkeypatch: pytest.MonkeyPatch) -> Iterator[HeldRescuer]:
    held = HeldRescuer()

    def made(_: object, __: str, stop: Callable[[], bool]) -> HeldRescuer:
        held.stop = stop
        return held

    monkeypatch.setattr(rescuing, "rescuer", made)
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


async def test_r_says_what_would_be_saved_and_enter_saves_it(
    rescuer: HeldRescuer, tmp_path: Path
) -> None:
    async with opened(incident_of(LEDGER), state_folder=tmp_path, size=(120, 40)) as (
        pilot,
        console,
    ):
        await pilot.press("r")
        await until(pilot, lambda: "Enter begins" in text(console), "what is to be saved")
        assert "To be saved: 1 partition, 50 offsets at most, from b2" in text(console)
        assert str(tmp_path / "rescue")[:40] in text(console)
        await pilot.press("enter")
        await until(pilot, lambda: "Copying: 20 of 50" in text(console), "the progress")
        rescuer.release.set()
        await until(pilot, lambda: "Saved 50 records" in text(console), "the end")
        assert "whole: 1 of 1 partitions" in text(console)
        assert "ledger-3: 50 records of b2 in" in text(console)
        await pilot.press("enter")
        assert "Saved 50 records" in text(console)
        asked = Asked(console, CopyAsked)
        await pilot.press("y")
        assert "ledger-3: 50 records of b2 in" in asked.messages[0].text
        await pilot.press("escape")
        assert shown_list(console).has_focus


@pytest.mark.usefixtures("rescuer")
async def test_escape_stops_first_and_then_goes_back(tmp_path: Path) -> None:
    async with opened(incident_of(LEDGER), state_folder=tmp_path) as (pilot, console):
        await pilot.press("r")
        await until(pilot, lambda: "Enter begins" in text(console), "what is to be saved")
        await pilot.press("enter")
        await until(pilot, lambda: "Copying" in text(console), "the beginning")
        await pilot.press("escape")
        assert isinstance(console.screen, RescueScreen)
        await until(pilot, lambda: "stopped on request" in text(console), "the end")
        await pilot.press("escape")
        assert shown_list(console).has_focus


@pytest.mark.usefixtures("rescuer")
async def test_where_nothing_is_cut_off_there_is_nothing_to_begin(tmp_path: Path) -> None:
    incident = incident_of(lossless(1), waiting(2))
    async with opened(incident, state_folder=tmp_path) as (pilot, console):
        await pilot.press("asterisk", "r")
        await until(pilot, lambda: "cuts off no records" in text(console), "the good news")
        await pilot.press("enter")
        assert "Copying" not in text(console)
