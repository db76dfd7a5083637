"""What becomes of the choice whether and where elections save what they cut off."""

from __future__ import annotations

from pathlib import Path

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.guard.act import ActEvent
from breakglass.services.recovery.acts.events import RescueEnded, RescueProgressed
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice, default_folder
from breakglass.services.recovery.guarded.rescuing import rescue_for, rescuer
from breakglass.services.recovery.rescue.rescue import JournalledRescue
from breakglass.services.recovery.rescue.results import RescueProgress
from breakglass.services.session import ReadAccess
from breakglass.services.state_folder import state_folder

UNUSED = ReadAccess(ConnectionSettings((Endpoint("127.0.0.1", 1),)))
"""Nothing is connected to before there is something to be read."""


def made(choice: RescueChoice, told: list[ActEvent] | None = None) -> JournalledRescue | None:
    tell = (told if told is not None else []).append
    found = rescue_for(choice, rescuer(UNUSED, "a-cluster", lambda: False), {}, tell)
    assert found is None or isinstance(found, JournalledRescue)
    return found


def test_elections_rescue_unless_told_not_to() -> None:
    assert made(RescueChoice()) is not None
    assert made(RescueChoice(without=True)) is None


def test_a_rescue_goes_to_the_state_folder_unless_told_where(tmp_path: Path) -> None:
    usual, told = made(RescueChoice()), made(RescueChoice(to=tmp_path))
    assert usual is not None
    assert told is not None
    assert usual.to == default_folder() == state_folder() / "rescue"
    assert told.to == tmp_path


def test_progress_and_results_are_events(tmp_path: Path) -> None:
    told: list[ActEvent] = []
    rescue = made(RescueChoice(), told)
    assert rescue is not None
    progress = RescueProgress(tmp_path, 2, 10, 50)
    rescue.rescuer.progress(progress)
    rescue.tell([])
    assert told == [RescueProgressed(progress), RescueEnded(())]
