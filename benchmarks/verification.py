"""Checking a backup: against its topic, beside the backup itself; its files, on one core and two.

The third job of a session is the backup, the fourth compares it: both find a warm JVM.
"""

from __future__ import annotations

import os
import time
from shutil import rmtree
from statistics import median

from benchmarks._copying import Filled, filled, print_rate
from benchmarks._measure import Options, print_load, reaches
from benchmarks._session import Session, session
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.verification import verify_files

RECORDS, RECORD_BYTES = 2_000_000, 1000
RUNS = 3
CORES = (1, 2)
CONTENT, FILES = 1.5, 1.6


def main(options: Options) -> bool:
    """Print the rates and their ratios; returns whether the targets are met."""
    with filled(options.records or RECORDS, RECORD_BYTES) as topic:
        print(f"checking {topic.records:,} records of {RECORD_BYTES:,} bytes")
        print_load()
        with session(topic.cluster.bootstrap_servers) as ours:
            content = _content(topic, ours, options.runs or RUNS)
        files = _files(topic, options.runs or RUNS)
        print_load()
    return content and files


def _content(topic: Filled, ours: Session, runs: int) -> bool:
    """Backup and comparison in turn; the last backup is left for `_files`."""
    copied, compared = [], []
    for number in range(runs + 1):
        folder = topic.folder / f"backup-{number}"
        folder.mkdir()
        backup = ours.back_up(topic.topic, folder)
        check = ours.verify(topic.topic, folder)
        print(f"    backup {backup.costs()}; {backup.memory()}")
        print(f"    verify {check.costs()}; {check.memory()}")
        copied.append(topic.rate(backup.seconds))
        compared.append(topic.rate(check.seconds))
        if number < runs:
            rmtree(folder)
        else:
            folder.rename(topic.folder / "last")
    # The first of each finds a cold JVM.
    print_rate("breakglass backup run", copied[1:])
    print_rate("breakglass backup verify --against", compared[1:])
    ratios = [check / copy for check, copy in zip(compared[1:], copied[1:], strict=True)]
    return reaches("verify / backup", median(ratios), CONTENT)


def _files(topic: Filled, runs: int) -> bool:
    """Hashing, by one core and by two, in turn; no broker is asked."""
    place = LocalFolder(topic.folder / "last" / topic.topic)
    usable = sorted(os.sched_getaffinity(0))
    rates: dict[int, list[float]] = {cores: [] for cores in CORES}
    try:
        for _ in range(runs):
            for cores in CORES:
                os.sched_setaffinity(0, usable[:cores])
                began = time.monotonic()
                found = verify_files(place, cores)
                rates[cores].append(topic.rate(time.monotonic() - began))
                assert found.whole
                assert found.records == topic.records
    finally:
        os.sched_setaffinity(0, usable)
    for cores, each in rates.items():
        print_rate(f"files by {cores} core{'s' if cores > 1 else ''}", each)
    ratios = [two / one for one, two in zip(*rates.values(), strict=True)]
    return reaches("files: 2 cores / 1 core", median(ratios), FILES)
