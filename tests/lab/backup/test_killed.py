"""kill -9 of the driver, of a worker of Spark, of the broker: nothing is lost, nothing is twice.

A few kills by default. With SOAK_KILLS=n it is n more, as `make soak` does it. Their points are
random, and the seed of a round is printed: with SOAK_SEED=seed it is that one again.
"""

import contextlib
import os
import random
import secrets
import subprocess
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path

import psutil
import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.pipeline.java import find_java
from tests.kit.waiting import wait_until
from tests.lab.asking import transactional
from tests.lab.backup.commands import finish
from tests.lab.backup.independent import delivered, stored
from tests.lab.backup.kills import (
    PARTITIONS,
    VICTIMS,
    KilledBackup,
    KilledJob,
    KilledRestore,
    Place,
    Scene,
    Siege,
    Victim,
    end_of,
)
from tests.lab.backup.producing import make, numbered, producer, put, shapes, transact
from tests.lab.backup.spark_cluster import SparkCluster
from tests.lab.backup.watching import writers_in

KILL_SECONDS = 600.0
SOAK_KILLS = int(os.environ.get("SOAK_KILLS", "0"))
KILLS_A_ROUND = 15
BYTES_A_SECOND = 500_000
TOPICS = ("killed-first", "killed-second")

SPECULATION = """\
spark.speculation true
spark.speculation.interval 50ms
spark.speculation.quantile 0.5
spark.speculation.minTaskRuntime 100ms
"""

JOBS: tuple[type[KilledJob], ...] = (KilledBackup, KilledRestore)
Lay = Callable[[int, Place, type[KilledJob], list[Victim]], Siege]


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    """A broker and workers that may be killed, and topics with committed and aborted records."""
    folder = tmp_path_factory.mktemp("kills")
    with (
        Cluster.up(folder / "lab", brokers=1, tethered=True) as broker,
        SparkCluster(folder) as spark,
    ):
        for topic in TOPICS:
            _fill(broker, topic)
        truth = {
            (topic, number): delivered(broker, topic, number)
            for topic in TOPICS
            for number in PARTITIONS
        }
        scene = Scene(broker, spark, folder, TOPICS, truth)
        names = ",".join(TOPICS)
        code, _, err = finish(broker, "run", "--topics", names, "--store", str(scene.whole))
        assert code == 0, err
        yield scene


@pytest.fixture
def siege(scene: Scene) -> Lay:
    """Makes a round that its seed says all about."""

    def lay(seed: int, place: Place, job: type[KilledJob], victims: list[Victim]) -> Siege:
        name = f"{secrets.token_hex(4)}-{seed}"
        made = KilledBackup(scene, name) if job is KilledBackup else KilledRestore(scene, name)
        return Siege(scene, place, made, victims, random.Random(seed))

    return lay


def _fill(broker: Cluster, topic: str) -> None:
    make(broker, topic, {"max.message.bytes": "2000000"}, partitions=len(PARTITIONS))
    writer = transactional(broker, topic)
    for number in PARTITIONS:
        produce_many(broker, topic, number, 4_000, pattern=Pattern(value_bytes=500))
        for commit in (False, True):
            transact(writer, topic, numbered(50), number, commit=commit)
    put(producer(broker), topic, shapes())


@pytest.mark.parametrize(
    ("place", "job", "victims"),
    [
        (Place.WORKERS, KilledBackup, [Victim.WORKER, Victim.BROKER, Victim.DRIVER]),
        (Place.WORKERS, KilledRestore, [Victim.WORKER, Victim.DRIVER]),
        (Place.HERE, KilledRestore, [Victim.BROKER, Victim.JVM]),
    ],
)
def test_kills_lose_and_double_nothing(
    siege: Lay, place: Place, job: type[KilledJob], victims: list[Victim]
) -> None:
    seed = int(os.environ.get("SOAK_SEED", secrets.randbits(32)))
    print(f"SOAK_SEED={seed}")
    assert siege(seed, place, job, victims).run() > 0


def test_a_second_attempt_of_a_task_leaves_one_copy(
    scene: Scene, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One task is stopped, its copy elsewhere ends the job, then the first one goes on."""
    (tmp_path / "spark-defaults.conf").write_text(scene.spark.login + SPECULATION)
    monkeypatch.setenv("SPARK_CONF_DIR", str(tmp_path))
    make_slow(scene.broker)
    root = scene.folder / "speculated"
    stopped: list[psutil.Process] = []

    def stop_one() -> bool:
        for writer in writers_in(root / TOPICS[0])[: 1 - len(stopped)]:
            writer.suspend()
            stopped.append(writer)
        return bool(stopped)

    words = ["run", "--topics", TOPICS[0], "--store", str(root), "--json"]
    with scene.started(words) as process:
        wait_until(stop_one, "a task to be stopped")
        ended = end_of(process)
    for one in stopped:
        with contextlib.suppress(psutil.NoSuchProcess):
            one.resume()
    assert ended.code == 0, ended
    for number in PARTITIONS:
        assert stored(root / TOPICS[0], number) == scene.truth[TOPICS[0], number]
    with scene.started(words) as process:
        assert end_of(process).code == 0
    assert list(root.glob("*/.breakglass-*")) == []


def make_slow(broker: Cluster) -> None:
    """Let a copy take some seconds, by quotas, so that there is time for many kills in it."""
    rates = f"consumer_byte_rate={BYTES_A_SECOND},producer_byte_rate={BYTES_A_SECOND}"
    where = ["--bootstrap-server", broker.bootstrap_servers]
    what = ["--entity-type", "clients", "--entity-name", "breakglass", "--add-config", rates]
    command = [str(find_java()), "-cp", broker.kafka.classpath, "kafka.admin.ConfigCommand"]
    subprocess.run(
        [*command, *where, "--alter", *what], check=True, capture_output=True, timeout=KILL_SECONDS
    )


@pytest.mark.timeout((SOAK_KILLS + 1) * KILL_SECONDS)
@pytest.mark.skipif(not SOAK_KILLS, reason="make soak")
def test_kills_of_anything_at_any_time_lose_and_double_nothing(
    scene: Scene, siege: Lay, capsys: pytest.CaptureFixture[str]
) -> None:
    """Some kills a round, and whatever was killed whole at its end."""

    make_slow(scene.broker)

    def tell(line: str) -> None:
        with capsys.disabled():
            print(line, flush=True)

    kills = rounds = 0
    while kills < SOAK_KILLS:
        seed = int(os.environ.get("SOAK_SEED", secrets.randbits(32)))
        chance = random.Random(seed)
        place, job = chance.choice(list(Place)), chance.choice(JOBS)
        among = VICTIMS[place]
        victims = chance.choices(
            list(among), list(among.values()), k=min(KILLS_A_ROUND, SOAK_KILLS - kills)
        )
        tell(f"\nSOAK_SEED={seed} {job.__name__} {place}: {', '.join(victims)}")
        kills += replace(siege(seed, place, job, victims), tell=tell).run()
        rounds += 1
        tell(f"whole: {kills} kills in {rounds} rounds")
