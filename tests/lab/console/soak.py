"""The console and the exporter, open on a lab whose brokers die and return: `make soak-console`.

Ends with 1 where memory grew, where a count of offline partitions was shown as fresh that nobody
else read near that moment, or where either program failed. What it prints is JSON: a line for each
death, and a last one that sums up.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from itertools import cycle
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.error import URLError

import psutil

from breakglass.services.errors import BreakglassError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topics
from breakglass.services.monitoring import meters
from tests.kit.claims import Claim, Dark, Reading, claim_of, wrong_claims
from tests.kit.flatness import is_flat, quarters
from tests.kit.promtool import stage_of
from tests.lab.monitoring.incident import Exporter, exporting, value
from tests.terminal.pty_terminal import PtyTerminal

BROKERS = (1, 2, 3)
TOPICS = {
    "alone": [[1], [2], [3]],
    "pairs": [[1, 2], [2, 3], [3, 1], [1, 2]],
    "triples": [[1, 2, 3], [2, 3, 1]],
}
PARTITIONS = sum(map(len, TOPICS.values()))
SCREENS = "1234578"
"""Of which another one is shown after each death."""
LOOK_SECONDS, START_SECONDS, END_SECONDS = 0.5, 180.0, 60.0
DOWN_SECONDS, UP_SECONDS = (15.0, 45.0), (10.0, 25.0)
MEGABYTE = 1_000_000


@dataclass(slots=True)
class Seen:
    """All that was read, by whom, and the memory of both programs; times are Unix seconds."""

    claims: list[Claim] = field(default_factory=list)
    readings: list[Reading] = field(default_factory=list)
    dark: list[Dark] = field(default_factory=list)
    resident: dict[str, list[int]] = field(default_factory=dict)
    stale: int = 0
    """How often the console's first line claimed nothing to be fresh."""
    down: int = 0
    """How often the exporter said that the cluster was not read."""
    unfounded: list[str] = field(default_factory=list)
    """Answers of the exporter with figures of a source that it calls down."""


class Watch:
    """Looks at console, exporter and cluster again and again, in threads, until the block ends."""

    def __init__(self, cluster: Cluster, console: PtyTerminal, exporter: Exporter) -> None:
        self.seen = Seen()
        self._cluster, self._console, self._exporter = cluster, console, exporter
        self._programs = {
            "console": psutil.Process(console.process.pid),
            "exporter": psutil.Process(exporter.program.pid),
        }
        self._over = threading.Event()
        looks = (self._read_cluster, self._read_console, self._read_exporter, self._weigh)
        self._threads = [
            threading.Thread(target=self._again, args=(look,), daemon=True) for look in looks
        ]
        self._failure: Exception | None = None

    def __enter__(self) -> Watch:
        for thread in self._threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._over.set()
        for thread in self._threads:
            thread.join(END_SECONDS)

    def pause(self, seconds: float) -> None:
        """Let *seconds* go by. Raises what a look has raised."""
        self._over.wait(seconds)
        if self._failure is not None:
            raise self._failure

    def _again(self, look: Callable[[], None]) -> None:
        try:
            while not self._over.wait(LOOK_SECONDS):
                look()
        except Exception as error:  # noqa: BLE001 -- raised where the soak waits
            self._failure = error
            self._over.set()

    def _read_cluster(self) -> None:
        began, offline = time.time(), None
        try:
            found = self._cluster.partitions(*TOPICS)
        except BreakglassError:
            pass
        else:
            # A broker that has just started knows fewer.
            if len(found) == PARTITIONS:
                offline = sum(state.leader is None for state in found)
        self.seen.readings.append(Reading(began, time.time(), offline))

    def _read_console(self) -> None:
        header = self._console.lines[0]
        claim = claim_of(header, time.time())
        if claim is None:
            self.seen.stale += 1
        else:
            self.seen.claims.append(claim)

    def _read_exporter(self) -> None:
        try:
            text = self._exporter.answer()
        except (URLError, TimeoutError) as error:
            raise AssertionError(f"the exporter does not answer: {error}") from error
        stage = stage_of(text)
        offline = value(stage, meters.OFFLINE)
        if not value(stage, meters.UP, source="cluster", place=""):
            self.seen.down += 1
            if offline is not None:
                self.seen.unfounded.append(text)
        elif offline is not None:
            moment = value(stage, meters.LOOKED, source="cluster", place="")
            assert moment is not None, text
            self.seen.claims.append(Claim("exporter", moment, int(offline)))

    def _weigh(self) -> None:
        for name, program in self._programs.items():
            self.seen.resident.setdefault(name, []).append(program.memory_info().rss)


def deaths(cluster: Cluster, watch: Watch, minutes: float, seed: int) -> Iterator[list[int]]:
    """Kill brokers and start them again, until *minutes* are over; yields who died each time."""
    chance = random.Random(seed)
    end = time.monotonic() + 60 * minutes
    while time.monotonic() < end:
        victims = sorted(chance.sample(BROKERS, chance.randint(1, len(BROKERS))))
        for number in victims:
            cluster.broker(number).kill()
        began = time.time()
        watch.pause(chance.uniform(*DOWN_SECONDS))
        ended = time.time()
        for number in victims:
            cluster.broker(number).start()
        if len(victims) == len(BROKERS):
            watch.seen.dark.append(Dark(began, ended, PARTITIONS))
        cluster.wait_unfenced(*BROKERS, timeout=START_SECONDS)
        watch.pause(chance.uniform(*UP_SECONDS))
        yield victims


def soak(
    folder: Path, minutes: float, seed: int, evidence: Path | None = None
) -> dict[str, object]:
    """Play it; returns what came of it, with the faults under ``wrong``.

    All that was read becomes the file *evidence*.
    """
    state = folder / "state"
    with ExitStack() as stack:
        cluster = stack.enter_context(Cluster.up(folder / "lab", brokers=3, tethered=True))
        create_topics(cluster, TOPICS)
        exporter = stack.enter_context(exporting(cluster.bootstrap_servers, state))
        console = stack.enter_context(_console(cluster, state))
        console.wait_for(" offline", START_SECONDS)
        screens, number = cycle(SCREENS), 0
        with Watch(cluster, console, exporter) as watch:
            for victims in deaths(cluster, watch, minutes, seed):
                number += 1
                console.press(next(screens))
                resident = {name: sizes[-1] for name, sizes in watch.seen.resident.items()}
                line = {"death": number, "brokers": victims, "resident_bytes": resident}
                print(json.dumps(line), flush=True)
        console.press("q")
        wrong = list(_faults(watch.seen))
        if code := console.exit_code(END_SECONDS):
            wrong.append(f"the console ended with {code}")
        exporter.program.terminate()
        if code := exporter.program.wait():
            wrong.append(f"the exporter ended with {code}")
        said = "\n".join(exporter.program.said) + console.raw.decode("utf-8", "replace")
    if evidence is not None:
        evidence.write_text(json.dumps(asdict(watch.seen)), encoding="utf-8")
    if "Traceback" in said:
        wrong.append("a traceback was printed")
    wrong += [f"{path}: {path.read_text()}" for path in state.rglob("failures/*")]
    return {"deaths": number, **_summary(watch.seen), "wrong": wrong}


def _console(cluster: Cluster, state: Path) -> PtyTerminal:
    command = (sys.executable, "-m", "breakglass", "--bootstrap-server", cluster.bootstrap_servers)
    env = {**os.environ, "TERM": "xterm-256color", "XDG_STATE_HOME": str(state)}
    return PtyTerminal(command, columns=80, rows=24, env=env)


def _faults(seen: Seen) -> Iterator[str]:
    for claim in wrong_claims(seen.claims, seen.readings, seen.dark):
        near = [(each.ended, each.offline) for each in seen.readings if each.near(claim.moment)]
        yield f"stale figures shown as fresh: {claim}; read near it: {near}"
    yield from (f"figures of a source that is down: {text}" for text in seen.unfounded)
    for name, sizes in seen.resident.items():
        if not is_flat(sizes):
            yield f"the {name} grew, in bytes by quarter: {quarters(sizes)}"
    if {claim.source for claim in seen.claims} != {"console", "exporter"}:
        yield "one of the two claimed nothing: nothing was shown"


def _summary(seen: Seen) -> dict[str, object]:
    counts = dict.fromkeys(("console", "exporter"), 0)
    for claim in seen.claims:
        counts[claim.source] += 1
    megabytes = {
        name: [round(size / MEGABYTE, 1) for size in quarters(sizes)]
        for name, sizes in seen.resident.items()
    }
    return {
        "readings": len(seen.readings),
        "fresh_claims": counts,
        "console_not_fresh": seen.stale,
        "exporter_down": seen.down,
        "times_without_any_broker": len(seen.dark),
        "resident_megabytes_by_quarter": megabytes,
    }


def main() -> int:
    """Play the soak and print what came of it; returns the exit code."""
    options = argparse.ArgumentParser(description=__doc__)
    options.add_argument("--minutes", type=float, default=60.0)
    options.add_argument("--seed", type=int, default=1)
    options.add_argument("--evidence", type=Path, help="a file for all that was read")
    asked = options.parse_args()
    with TemporaryDirectory(prefix="breakglass-soak-", dir=os.environ.get("TMPDIR")) as folder:
        found = soak(Path(folder), asked.minutes, asked.seed, asked.evidence)
    print(json.dumps(found))
    return int(bool(found["wrong"]))


if __name__ == "__main__":
    sys.exit(main())
