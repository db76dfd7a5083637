"""The memory of a backup without an end, minute after minute, while records come steadily."""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

from benchmarks._copying import TOPIC, broker, make_topic, trickle
from benchmarks._measure import meets, ours, print_load
from benchmarks._options import Options
from benchmarks._usage import ROLES, held
from services.lab.cluster import Cluster
from services.topic_backup.folder import LocalFolder
from services.topic_backup.manifest import read_manifest

RECORDS, A_SECOND, RECORD_BYTES = 2_400_000, 2_000, 200
"""Twenty minutes of them."""
SAMPLE_SECONDS = 5.0
PARTS = 5
"""Of so many equal parts the memory of the last one is held against that of the second."""
FLAT = 1.1
START_SECONDS = 120.0

Samples = list[Mapping[str, float]]


def main(options: Options) -> bool:
    """Print the memory by role as it goes on; returns whether it stays about the same."""
    records = options.records or RECORDS
    with broker(needed=records * RECORD_BYTES * 4) as (cluster, folder):
        make_topic(cluster, TOPIC)
        print(f"backup run --continuous, {A_SECOND:,} records of {RECORD_BYTES} bytes a second")
        print_load()
        with _running(cluster, folder) as driver, _sampled(driver) as samples:
            trickle(cluster, TOPIC, records, RECORD_BYTES, A_SECOND)
        print_load()
        print(f"  committed                {_committed(folder / 'backup' / TOPIC):>12,} records")
    return _flat(samples)


@contextmanager
def _running(cluster: Cluster, folder: Path) -> Iterator[psutil.Process]:
    """The command, from its first commit on until it has been asked to end."""
    backup = folder / "backup"
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--topics", TOPIC, "--to", backup)
    program = ours("breakglass", folder, "backup", "run", "--continuous", *where)
    with (folder / "told").open("w") as told:
        process = subprocess.Popen(
            list(map(str, program.command)), env=program.environment, stdout=told, stderr=told
        )
    try:
        give_up = time.monotonic() + START_SECONDS
        while read_manifest(LocalFolder(backup / TOPIC)) is None:
            if process.poll() is not None or time.monotonic() > give_up:
                raise RuntimeError(f"it does not start: {(folder / 'told').read_text()[-2000:]}")
            time.sleep(0.1)
        yield psutil.Process(process.pid)
    finally:
        process.terminate()
        process.wait(START_SECONDS)


@contextmanager
def _sampled(driver: psutil.Process) -> Iterator[Samples]:
    samples: Samples = []
    over = threading.Event()

    def watch() -> None:
        while not over.wait(SAMPLE_SECONDS):
            samples.append(held(driver))

    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield samples
    finally:
        over.set()
        thread.join()


def _committed(folder: Path) -> int:
    manifest = read_manifest(LocalFolder(folder))
    if manifest is None:
        return 0
    return sum(segment.count for one in manifest.partitions for segment in one.segments)


def _flat(samples: Samples) -> bool:
    part = len(samples) // PARTS
    parts = [samples[part * number : part * (number + 1)] for number in range(PARTS)]
    met = []
    for role in ROLES:
        middles = [median(one[role] for one in some) for some in parts]
        each = " ".join(f"{one:.0f}" for one in middles)
        print(f"  {role:<24} {middles[-1]:6.0f} MB   by fifths {each}")
        met.append(meets(f"memory of {role}: last / second", middles[-1] / middles[1], FLAT))
    return all(met)
