"""What `checkpoint take` and `finish` print while they copy, when stopped, and when they fail."""

import json
import signal
from pathlib import Path

import pytest

from breakglass.console.checkpoint_options import CONTROL
from breakglass.console.checkpoint_take import SIGNALS, copied, failure_printed
from breakglass.services.checkpoint.coordinator import Coordinator, Finisher
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    Level,
    StartedDocument,
    TakeDocument,
)
from breakglass.services.errors import ClusterError, Refused
from tests.unit.checkpoint.test_coordinator import World
from tests.unit.checkpoint.topics import Logs


@pytest.fixture
def store(tmp_path: Path) -> BackupStore:
    """With checkpoint 1, acknowledged by the request "nightly"."""
    store = BackupStore(str(tmp_path))
    assert Coordinator(store, Logs()).take(1, "nightly") == 1
    return store


class Stopped(World):
    """A signal comes while it is decided what is in the checkpoint."""

    number = signal.SIGTERM

    def decide(self, take: TakeDocument, started: StartedDocument) -> CutDocument:
        signal.raise_signal(self.number)
        return super().decide(take, started)


def finisher(store: BackupStore, world: World, node: int = 0) -> Finisher:
    return Finisher(store, world, world, node, wait=lambda _: None)


@pytest.mark.parametrize("number", SIGNALS)
def test_a_signal_ends_it_with_the_command_that_goes_on_and_names_the_partitions(
    store: BackupStore, capsys: pytest.CaptureFixture[str], number: signal.Signals
) -> None:
    before = [signal.getsignal(signals) for signals in SIGNALS]
    world = Stopped()
    world.number = number
    with pytest.raises(KeyboardInterrupt):
        copied(finisher(store, world, node=3), 1, "my control")
    assert [signal.getsignal(signals) for signals in SIGNALS] == before
    (line,) = capsys.readouterr().err.splitlines()
    go_on = f"breakglass checkpoint finish 1 --store {store.address}"
    assert f"`{go_on} --control-topic 'my control' --node 3`" in line
    found = copied(finisher(store, World(), node=3), 1, CONTROL)
    assert found.status == "completed"
    lines = sorted(capsys.readouterr().err.splitlines())
    assert lines == [f"orders-{number}  completed" for number in (0, 1, 2)]


def test_a_failure_is_printed_with_what_is_stored_of_the_request(
    store: BackupStore, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    def fail(store: BackupStore, *, as_json: bool = True) -> str:
        lagging = finisher(store, World(ClusterError("group bank lags")))
        with (
            pytest.raises((ClusterError, Refused)),
            failure_printed(store, "nightly", Level.COORDINATED, as_json=as_json),
        ):
            copied(lagging, 1, CONTROL)
        return capsys.readouterr().out

    found = json.loads(fail(store))
    assert (found["id"], found["level"], found["state"]) == (1, "coordinated", "failed")
    assert found["failure"] == "group bank lags"
    assert "group bank lags" in fail(store, as_json=False)
    nothing = json.loads(fail(BackupStore(str(tmp_path / "empty"))))
    assert (nothing["schema"], nothing["id"], nothing["state"]) == (1, None, None)
    assert (nothing["level"], bool(nothing["failure"])) == ("coordinated", True)
