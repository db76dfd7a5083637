"""However a drill ends, what it made is cleaned up; without brokers, which the lab tests have."""

import signal
import subprocess
import sys
from contextlib import nullcontext
from pathlib import Path

import pytest

from breakglass.services.errors import LabError
from breakglass.services.guard.lock import file_name
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.keeper import LAB, kept
from breakglass.services.lab.layout import LAYOUT_FILE
from tests.kit.waiting import wait_until

HOLDER = """
import sys
from contextlib import nullcontext
from pathlib import Path
from breakglass.services.lab.keeper import kept
with kept(Path(sys.argv[1]), Path(sys.argv[2])):
    print("entered", flush=True)
    sys.stdin.read()
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """The folder of a drill, with a lab that was planned."""
    folder = tmp_path / "drill"
    Cluster.plan(folder / LAB, brokers=1)
    return folder


@pytest.fixture
def state(tmp_path: Path, folder: Path) -> Path:
    """A state folder that has things of the lab's cluster, and of another."""
    state = tmp_path / "state"
    own = file_name(Cluster.load(folder / LAB).layout.cluster_id)
    for name in (own, file_name("another")):
        (state / "journal" / name).mkdir(parents=True)
        (state / "journal" / name / "1.jsonl").touch()
        (state / "locks").mkdir(exist_ok=True)
        (state / "locks" / f"{name}.lock").touch()
    return state


def left_in(state: Path) -> set[str]:
    return {str(path.relative_to(state)) for path in state.rglob("*") if path.is_file()}


OTHERS = {"journal/cluster-another/1.jsonl", "locks/cluster-another.lock"}


@pytest.mark.parametrize("error", [None, KeyboardInterrupt, SystemExit])
def test_whatever_ends_it_only_what_is_of_other_clusters_is_left(
    folder: Path, state: Path, error: type[BaseException] | None
) -> None:
    with (
        pytest.raises(error) if error else nullcontext(),
        kept(folder, state, keep=error is not None) as lab,
    ):
        assert (lab / LAYOUT_FILE).exists()
        if error:
            raise error
    assert not folder.exists()
    assert left_in(state) == OTHERS


def test_after_a_kill_another_process_cleans_up(folder: Path, state: Path) -> None:
    holder = subprocess.Popen(
        [sys.executable, "-c", HOLDER, folder, state], stdin=subprocess.PIPE, stdout=subprocess.PIPE
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == b"entered\n"
        holder.send_signal(signal.SIGKILL)
    wait_until(lambda: not folder.exists(), "the folder to be removed")
    wait_until(lambda: left_in(state) == OTHERS, "the state folder to be as before")


def test_a_lost_machine_is_neither_started_nor_resumed(folder: Path) -> None:
    cluster = Cluster.load(folder / LAB)
    cluster.give_up(1)
    lost = Cluster.load(folder / LAB).broker(1)
    for act in (lost.start, lost.resume):
        with pytest.raises(LabError):
            act()
