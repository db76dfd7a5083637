"""The memory of a backup without an end, minute after minute, while records come steadily.

Driver and workers are held to the memory they have. A JVM takes the heap that it was given before
it collects: of its heap what is alive after a collection is to stay the same, and its memory is
to stay within the heap and what a JVM of Spark needs beside.
"""

from __future__ import annotations

import subprocess
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

from benchmarks._copying import TOPIC, broker, make_topic, trickle
from benchmarks._measure import ROLES, Options, held, live_heap, meets, ours, print_load, roles
from breakglass.services.lab.cluster import Cluster
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.manifest import read_manifest

RECORDS, A_SECOND, RECORD_BYTES = 2_400_000, 2_000, 200
"""Twenty minutes of them."""
SAMPLE_SECONDS = 5.0
PARTS = 5
"""Of so many equal parts the memory of the last one is held against that of the second."""
FLAT = 1.1
LIVE, LIVE_SECONDS = "live heap", 45.0
"""Of the JVM; to know it collects, so it is asked now and then."""
JVM_MOST = 1600.0
"""Megabytes: a heap of 1,024 MiB, and 500 for classes, compiled code, buffers and threads."""
START_SECONDS = 120.0

Samples = list[dict[str, float]]


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
    part = len(samples) // PARTS
    parts = [samples[part * number : part * (number + 1)] for number in range(PARTS)]
    middles = {role: [_middle(role, some) for some in parts] for role in (*ROLES, LIVE)}
    for role, found in middles.items():
        each = " ".join(f"{moment:.0f}" for moment in found)
        print(f"  {role:<24} {found[-1]:6.0f} MB   by fifths {each}")
    met = [
        meets(f"memory of {role}: last / second", found[-1] / found[1], FLAT)
        for role, found in middles.items()
        if role != "JVM"
    ]
    return all([*met, meets("memory of JVM: most", max(middles["JVM"]), JVM_MOST, " MB")])


@contextmanager
def _running(cluster: Cluster, folder: Path) -> Iterator[psutil.Process]:
    """The command, from its first commit on until it has been asked to end."""
    backup = folder / "backup"
    where = ("--bootstrap-server", cluster.bootstrap_servers, "--topics", TOPIC, "--store", backup)
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
        asked = time.monotonic()
        while not over.wait(SAMPLE_SECONDS):
            samples.append(found := held(driver))
            if time.monotonic() > asked + LIVE_SECONDS:
                asked = time.monotonic()
                jvms = [one.pid for role, one in roles(driver) if role == "JVM"]
                found[LIVE] = sum(map(live_heap, jvms))

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
    return sum(segment.count for partition in manifest.partitions for segment in partition.segments)


def _middle(role: str, samples: Samples) -> float:
    return median(sample[role] for sample in samples if role in sample)
