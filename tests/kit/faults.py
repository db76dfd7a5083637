"""The faults that whatever follows a cluster goes on through, and the lab that they are done to.

`TABLE` has each command under each fault, and how it is reported.
"""

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Producer

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.proxy import Proxy
from breakglass.services.lab.topics import create_topic, elect_preferred, reassign, wait_in_sync
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.model import TopicPartition
from tests.kit.waiting import DEADLINE_SECONDS
from tests.lab.asking import NO_LOG

RETAINED = {
    "retention.ms": "-1",
    "cleanup.policy": "delete",
    "unclean.leader.election.enable": "false",
}
"""The settings of ksqlDB's command topic (KsqlInternalTopicUtils)."""
CONTROLLER = 101
BROKERS = (1, 2, 3)


@dataclass(frozen=True, slots=True)
class Lab:
    """The cluster, and the network between it and its clients."""

    cluster: Cluster
    proxies: dict[int, Proxy]

    def leader(self, topic: str) -> int:
        """The broker that leads partition 0 of *topic* once somebody does."""
        found: list[int | None] = [None]

        def led() -> bool:
            found[0] = self.cluster.partition(topic, 0).leader
            return found[0] is not None and self.cluster.broker(found[0]).awake

        self.cluster.wait_until(led, f"a leader of {topic}")
        assert found[0] is not None
        return found[0]

    def create(self, topic: str, *brokers: int) -> None:
        """Create *topic* with one partition on *brokers*, on all of them by default."""
        create_topic(self.cluster, topic, [list(brokers or BROKERS)], RETAINED)

    def whole(self, *topics: str) -> None:
        """Start and resume whatever is down, and wait until every replica is in sync."""
        for proxy in self.proxies.values():
            proxy.heal()
        for node in self.cluster.nodes:
            if node.paused:
                node.resume()
        self.cluster.start()
        if topics:
            wait_in_sync(self.cluster, *topics)


class Writer:
    """Writes each record once, through whatever happens to the brokers meanwhile.

    It has its producer id from the first record on: without a controller there is none to be had.
    """

    def __init__(self, lab: Lab, topic: str) -> None:
        settings = {
            "bootstrap.servers": lab.cluster.lab_bootstrap,
            "enable.idempotence": True,
            "acks": "all",
            "linger.ms": 0,
            "socket.timeout.ms": 5_000,
        }
        self._producer = Producer(settings, logger=NO_LOG)
        self._topic = topic

    def write(self, records: Sequence[CommandRecord]) -> None:
        """Return when all are acknowledged."""
        failed: list[object] = []

        def delivered(error: object, _: object) -> None:
            failed.extend([error] if error is not None else [])

        for record in records:
            self._producer.produce(
                self._topic, record.value, record.key, partition=0, on_delivery=delivered
            )
        left = self._producer.flush(DEADLINE_SECONDS)
        assert (left, failed) == (0, [])


@contextmanager
def lab_in(folder: Path) -> Iterator[Lab]:
    """A lab that is taken down at the end."""
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.plan(folder, tethered=True))
        proxies = {}
        for node in cluster.brokers:
            proxies[node.id] = stack.enter_context(Proxy(node.address(Listener.CLIENT)))
            cluster.advertise(node.id, proxies[node.id].address)
        cluster.start()
        yield Lab(cluster, proxies)


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


METASTORE = "ksql backup --follow"
BACKUP = "backup run --continuous"
SERVE = "serve checkpoints --every"
CONSOLE = "console"


class Report(StrEnum):
    """How a cell of the table begins."""

    BEHIND = "Behind"
    """It says since when it is behind, goes on, and says when it has caught up."""
    NOTHING = "Goes on"
    """Nothing that it needs is away for long: it may say nothing at all."""
    SHOWN = "Shown"
    """What is wrong is on the screen, with the age of what cannot be read."""


B, N, S = Report.BEHIND, Report.NOTHING, Report.SHOWN
ORDER = tuple(Fault)
TABLE = {
    METASTORE: dict(zip(ORDER, (B, B, N, B, B, B, B), strict=True)),
    BACKUP: dict(zip(ORDER, (N, N, N, N, N, B, B), strict=True)),
    SERVE: dict(zip(ORDER, (N, N, N, B, N, B, B), strict=True)),
    CONSOLE: dict(zip(ORDER, (S, S, S, S, N, S, N), strict=True)),
}
"""By command and fault."""


def cells(command: str) -> list[Any]:
    """The faults that *command* is tested under, with how each is reported."""
    return [
        pytest.param(fault, report, id=fault.name.lower())
        for fault, report in TABLE[command].items()
    ]


@pytest.fixture(scope="session")
def shared_followed_lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Lab]:
    with lab_in(tmp_path_factory.mktemp("followed")) as found:
        yield found


@pytest.fixture
def followed_lab(shared_followed_lab: Lab) -> Iterator[Lab]:
    """Whole at the beginning, and again at the end, whatever became of the test."""
    yield shared_followed_lab
    shared_followed_lab.whole()


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A file system of its own for what the follower writes."""
    with small_disk(tmp_path / "disk") as place:
        if place is None:
            pytest.skip("this user may not mount a file system")
        yield place


on_followed_lab = pytest.mark.xdist_group("followed lab")
"""One worker has the lab for all of these tests."""


def under_faults(command: str) -> pytest.MarkDecorator:
    """Parametrize a test with every fault, and how *command* reports it."""
    return pytest.mark.parametrize(("fault", "report"), cells(command))
