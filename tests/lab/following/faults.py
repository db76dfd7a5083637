"""The faults that whatever follows a cluster goes on through, each done and undone."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from enum import StrEnum
from pathlib import Path

from breakglass.services.lab.topics import elect_preferred, reassign, wait_in_sync
from breakglass.services.model import TopicPartition
from tests.lab.following.lab import BROKERS, CONTROLLER, Lab

DISK_BYTES = 4 * 1024 * 1024
"""More than a command writes until a test fills the rest."""
FILLER = "filler"


class Fault(StrEnum):
    """As the table of the documentation names them."""

    KILL_LEADER = "kill -9 of the leader"
    EACH_BROKER = "kill -9 of each broker in turn"
    CONTROLLER = "kill -9 of the controller"
    STOPPED_LEADER = "SIGSTOP of the leader"
    MOVED_LEADER = "moved leader"
    LOST_NETWORK = "lost network"
    FULL_DISK = "full disk, then freed"


@contextmanager
def small_disk(place: Path) -> Iterator[Path | None]:
    """A file system of few bytes at *place*; None where this user may not mount any."""
    place.mkdir(parents=True)
    size = f"size={DISK_BYTES}"
    mount = ["mount", "-t", "tmpfs", "-o", size, "breakglass-test", str(place)]
    if subprocess.run(mount, capture_output=True).returncode:
        yield None
        return
    try:
        yield place
    finally:
        subprocess.run(["umount", "-l", str(place)], check=True)


def fill(disk: Path) -> None:
    """Leave no byte free."""
    with (disk / FILLER).open("ab", buffering=0) as file:
        try:
            while True:
                file.write(bytes(4096))
        except OSError:
            return


def damage(fault: Fault, lab: Lab, topic: str, disk: Path, during: Callable[[], None]) -> None:
    """Do *fault*, call *during* while it lasts, and undo it; each broker in turn: three times."""

    def each() -> None:
        for broker in BROKERS:
            _killed(lab, topic, broker, during)

    rounds: dict[Fault, Callable[[], None]] = {
        Fault.KILL_LEADER: lambda: _killed(lab, topic, lab.leader(topic), during),
        Fault.EACH_BROKER: each,
        Fault.CONTROLLER: lambda: _killed(lab, topic, CONTROLLER, during),
        Fault.STOPPED_LEADER: lambda: _stopped(lab, topic, during),
        Fault.MOVED_LEADER: lambda: _moved(lab, topic, during),
        Fault.LOST_NETWORK: lambda: _cut_off(lab, during),
        Fault.FULL_DISK: lambda: _full(disk, during),
    }
    rounds[fault]()


def _killed(lab: Lab, topic: str, node: int, during: Callable[[], None]) -> None:
    lab.cluster.node(node).kill()
    during()
    lab.whole(topic)


def _stopped(lab: Lab, topic: str, during: Callable[[], None]) -> None:
    leader = lab.leader(topic)
    lab.cluster.broker(leader).pause()
    during()
    lab.whole(topic)


def _moved(lab: Lab, topic: str, during: Callable[[], None]) -> None:
    """The assignment is turned, and its first replica elected."""
    leader = lab.leader(topic)
    turned = [broker for broker in BROKERS if broker != leader] + [leader]
    partition = TopicPartition(topic, 0)
    reassign(lab.cluster, {partition: turned})
    elect_preferred(lab.cluster, partition)
    lab.cluster.wait_until(
        lambda: lab.cluster.partition(topic, 0).leader == turned[0], "the leader to move"
    )
    during()
    wait_in_sync(lab.cluster, topic)


def _cut_off(lab: Lab, during: Callable[[], None]) -> None:
    for proxy in lab.proxies.values():
        proxy.cut()
    during()
    for proxy in lab.proxies.values():
        proxy.heal()


def _full(disk: Path, during: Callable[[], None]) -> None:
    fill(disk)
    during()
    (disk / FILLER).unlink()
