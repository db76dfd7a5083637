"""Planning at the size of a large cluster: 200 brokers and 200,000 partitions.

From what brokers answered, generated, to the evidence, the verdicts, the brokers whose start brings
most back, and what happens by itself. Beside it stand two peers that conclude nothing: the same
answers as JSON, read by Python's own parser, and the metadata alone as kafka-python decodes it.
Each runs in a process of its own; what generates the answers is in no figure but the memory.
"""

from __future__ import annotations

import gc
import json
import resource
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from dataclasses import asdict
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from benchmarks._incident import description_of
from benchmarks._measure import KIBIBYTES_PER_MEGABYTE, Options, meets, print_load
from breakglass.console.exits import collect_cycles_seldom
from breakglass.services.incident.incident import tally_of
from breakglass.services.incident.listing import forecast_of
from breakglass.services.incident.row import bare_rows
from breakglass.services.recovery.evidence.gather import assemble
from breakglass.services.recovery.judgement.succession import Circumstances
from breakglass.services.recovery.judgement.verdict import assess, assess_all
from breakglass.services.recovery.plan.document import write_plan
from breakglass.services.recovery.plan.draft import open_plan
from breakglass.services.recovery.plan.make import make_plan
from tests.kit.large_cluster import BROKERS, LargeCluster, generated

PARTITIONS = 200_000
SHARES = (0.01, 0.1, 1.0)
"""Of the partitions, those that are offline."""
SECONDS = 4.0
MEGABYTES = 1000.0
RUNS = 3


class Took(NamedTuple):
    """One run: seconds by step, and the most memory of its process in megabytes."""

    wall: dict[str, float]
    cpu: dict[str, float]
    peak: float

    @property
    def total(self) -> float:
        """Seconds."""
        return sum(self.wall.values())


def main(options: Options) -> bool:
    """Print each step and the ratios; returns whether time and memory are within bounds."""
    count, runs = options.partitions or PARTITIONS, options.runs or RUNS
    print(f"planning for {BROKERS} brokers and {count:,} partitions, on generated answers")
    print_load()
    met = True
    for share in SHARES:
        offline = int(count * share)
        print(f"  {offline:,} of them offline")
        ours = _quickest("plan", count, offline, runs)
        peers = [_quickest(name, count, offline, runs) for name in ("json", "metadata")]
        for took in (ours, *peers):
            _print(took)
        for name, peer in zip(("JSON alone", "kafka-python's metadata"), peers, strict=True):
            print(f"    {f'planning / {name}':<42} {ours.total / peer.total:6.2f}")
        met = meets(f"planning, {offline:,} offline", ours.total, SECONDS, " s") and met
        met = meets("memory at most", ours.peak, MEGABYTES, " MB") and met
    print("  a plan of all of them, made, written, read again: no target")
    _print(_quickest("file", count, count, 1))
    return met


def _print(took: Took) -> None:
    for step, seconds in took.wall.items():
        print(f"    {step:<42} {seconds:6.2f} s   cpu {took.cpu[step]:6.2f} s")
    print(f"    {'memory of that process at most':<42} {took.peak:6.0f} MB")


def _quickest(what: str, count: int, offline: int, runs: int) -> Took:
    """The quickest of so many runs, each in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.planning", what, str(count), str(offline)]
    found = []
    for _ in range(runs):
        told = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout
        found.append(Took(**json.loads(told)))
    return min(found, key=lambda took: took.total)


class _Clock:
    """Seconds of each step."""

    def __init__(self) -> None:
        self.wall: dict[str, float] = {}
        self.cpu: dict[str, float] = {}

    def step(self, name: str, act: Callable[[], Any]) -> Any:
        wall, cpu = time.perf_counter(), time.process_time()
        made = act()
        self.wall[name] = time.perf_counter() - wall
        self.cpu[name] = time.process_time() - cpu
        return made


def _plan(clock: _Clock, cluster: LargeCluster) -> None:
    snapshot = cluster.snapshot
    offline = clock.step("offline partitions found", lambda: snapshot.offline)
    evidence = clock.step("evidence assembled", lambda: _assembled(cluster, offline))
    circumstances = Circumstances(snapshot.quorum)
    judged = clock.step("verdicts", lambda: assess_all(evidence, circumstances))
    rows = clock.step("conclusions as rows", lambda: bare_rows(judged))
    clock.step("headline", lambda: tally_of(rows, snapshot))
    clock.step("forecast, brokers to start", lambda: forecast_of(rows))


def _assembled(cluster: LargeCluster, offline: Any) -> Any:
    snapshot = cluster.snapshot
    return assemble(
        offline, snapshot.description, snapshot.settings, cluster.answers, cluster.silent, {}
    )


def _file(clock: _Clock, cluster: LargeCluster) -> None:
    snapshot = cluster.snapshot
    circumstances = Circumstances(snapshot.quorum)
    evidence = _assembled(cluster, snapshot.offline)
    judged = (assess(each, circumstances) for each in evidence)
    plan = clock.step("verdicts and plan", lambda: make_plan(judged, snapshot.cluster_id, 0))
    clock.step("digest", lambda: plan.digest)
    with TemporaryDirectory(prefix="breakglass-bench-") as folder:
        path = Path(folder) / "plan.json"
        clock.step("written", lambda: write_plan(plan, path))
        again, _ = clock.step("read", lambda: open_plan(path))
    if clock.step("digest again", lambda: again.digest) != plan.digest:
        raise RuntimeError("the plan that was read is another: nothing was measured")


def _json(clock: _Clock, cluster: LargeCluster) -> None:
    text = "".join(_documents(cluster))
    del cluster
    clock.step("the same answers by json.loads", lambda: json.loads(text))


def _documents(cluster: LargeCluster) -> Iterator[str]:
    """One list: partitions, then for each broker the replicas that it reported."""
    yield "[0"
    for state in cluster.snapshot.partitions:
        yield f",{json.dumps(asdict(state), default=str)}"
    for broker, answer in cluster.answers.items():
        for partition, reading in answer.readings.items():
            named = {"broker": broker, **asdict(partition), **asdict(reading)}
            yield f",{json.dumps(named, default=str)}"
    yield "]"


def _metadata(clock: _Clock, cluster: LargeCluster) -> None:
    decode = description_of(cluster.snapshot.partitions)
    answer = clock.step("metadata by kafka-python, no replica", decode)
    if sum(len(topic.partitions) for topic in answer.topics) != len(cluster.snapshot.partitions):
        raise RuntimeError("kafka-python decoded other partitions: nothing was measured")


WORK: dict[str, Callable[[_Clock, LargeCluster], None]] = {
    "plan": _plan,
    "file": _file,
    "json": _json,
    "metadata": _metadata,
}


def _run(what: str, count: int, offline: int) -> None:
    """In a process of its own: print what it took."""
    cluster = generated(count, offline)
    collect_cycles_seldom()
    gc.collect()
    gc.freeze()
    clock = _Clock()
    WORK[what](clock, cluster)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / KIBIBYTES_PER_MEGABYTE
    print(json.dumps({"wall": clock.wall, "cpu": clock.cpu, "peak": peak}))


if __name__ == "__main__":
    _run(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]))
