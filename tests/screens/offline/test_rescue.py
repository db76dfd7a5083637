"""Saving what an election would cut off, without electing anybody."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import pytest

from breakglass.screens.messages import CopyAsked
from breakglass.screens.offline.rescue import RescueScreen, prepare
from breakglass.services.recovery.guarded import rescuing
from breakglass.services.recovery.rescue.results import RescuedPartition, RescueProgress, Saved
from breakglass.services.recovery.rescue.spans import AtRisk, Span
from tests.kit.incidents import (
    LEDGER,
    every_verdict,
    incident_of,
    lossless,
    nothing_offline,
    waiting,
)
from tests.screens.offline.offline_console import opened

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
