"""`make hostile SECONDS=N SEED=S`: every command against brokers that answer falsely at random.

A real cluster with an offline broker stands behind a proxy for each broker; a seed makes all of
them honest but what `Peer` makes of their answers. Commands run as an operator runs them, each in
a process of its own. A seed fails when a command does not end, is ended by a signal, ends with no
exit code of Breakglass or without a sentence, prints a traceback or what a terminal obeys, takes
more memory than its budget, or calls a backup whole that differs from what was written.
"""

import argparse
import json
import os
import random
import re
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Listener
from breakglass.services.lab.proxy import Proxy
from breakglass.services.lab.topics import create_topic
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.settings import command_topic
from tests.hostile.peer import Peer
from tests.kit.running import ran, words_of
from tests.lab.backup.independent import contents
from tests.lab.backup.producing import numbered, produce
from tests.lab.ksql.topics import CommandTopic

EVIDENCE = Path("build/hostile")
HUNG_SECONDS = 400.0
"""It only ends a hang: above every deadline of `services.patience` that a command adds up."""
PLAIN_MB, SPARK_MB = 300, 1_024
RECORDS, COMMANDS = 400, 30
DEAD = 3
OBEYED = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028\u2029\u202a-\u202e\u2066-\u2069]"
)
"""What a terminal obeys, or what turns text around."""


@dataclass(frozen=True, slots=True)
class Ended:
    """A command that ended, or did not."""

    words: tuple[str, ...]
    code: int | None
    """None: it did not end."""
    out: str
    err: str
    megabytes: int
    seconds: float

    def faults(self, most: int) -> list[str]:
        """What no peer may bring about."""
        said = self.err.strip()
        found = {
            "did not end": self.code is None,
            f"ended by signal {-(self.code or 0)}": self.code is not None and self.code < 0,
            f"exit code {self.code}": self.code is not None and self.code > 4,
            "no sentence": self.code not in (0, None) and not said and not self.out.strip(),
            "traceback": "Traceback" in said or "Exception in thread" in said,
            "obeyed by a terminal": OBEYED.search(self.out + said) is not None,
            f"{self.megabytes} MB of {most}": self.megabytes > most,
        }
        return [name for name, is_so in found.items() if is_so]


class Theatre:
    """The cluster behind its proxies, and what was true before any peer was false."""

    def __init__(self, stack: ExitStack, folder: Path) -> None:
        self.folder = folder
        self.cluster = stack.enter_context(Cluster.plan(folder / "lab"))
        self.proxies = []
        for node in self.cluster.brokers:
            proxy = stack.enter_context(Proxy(node.address(Listener.CLIENT)))
            self.cluster.advertise(node.id, proxy.address)
            self.proxies.append(proxy)
        self.cluster.start()
        create_topic(self.cluster, "orders", [[1, 2], [2, 1]])
        create_topic(self.cluster, "solo", [[DEAD, 1]])
        for topic in ("orders", "solo"):
            produce(self.cluster, topic, numbered(RECORDS))
        service = CommandTopic(self.cluster, "svc")
        service.create()
        texts = [f"stream/`S{number}`/create" for number in range(COMMANDS)]
        statement = json.dumps({"statement": "CREATE STREAM S (Z INT);", "version": 14})
        service.produce(
            [
                CommandRecord(n, json.dumps(t).encode(), statement.encode())
                for n, t in enumerate(texts)
            ]
        )
        self.lines = [f"{json.dumps(text)}:{statement}" for text in texts]
        self.bootstrap = ",".join(str(proxy.address) for proxy in self.proxies)
        self._prepare("backup", "run", "--store", folder / "backup", "--topics", "orders")
        self._prepare("ksql", "backup", "--service-id", "svc", "--store", folder / "commands")
        (self.backup,) = (folder / "commands").rglob("*.bak")
        words = ("checkpoint", "take", "--store", folder / "checkpoints", "--topics", "orders")
        self._prepare(*words, "--level", "vector")
        self.written = contents(self.cluster, "orders")
        self.cluster.broker(1).stop()
        produce(self.cluster, "solo", numbered(RECORDS, RECORDS))
        self.cluster.broker(DEAD).kill()
        self.cluster.broker(1).start()
        self.cluster.wait_until(
            lambda: self.cluster.partition("solo", 0).leader is None, "solo is offline"
        )
        self._prepare("plan", "make", "--out", folder / "plan.json")

    def _prepare(self, *words: object) -> None:
        done = ran(*words, "--bootstrap-server", self.cluster.lab_bootstrap)
        assert done.code == 0, done.err

    def commands(self, number: int) -> list[tuple[str, ...]]:
        """Every command line that asks brokers; files of its own for seed *number*."""
        here, own = self.folder, self.folder / f"seed-{number}"
        own.mkdir()
        log = f"log:{self.cluster.broker(DEAD).layout.log_dirs[0]}"
        lines = f"""
            triage --json
            triage --show-replica-info
            doctor --json
            plan make --out {own}/plan.json
            plan check {here}/plan.json
            recover --plan {here}/plan.json
            recover --plan {here}/plan.json --write
            unclean-recovery --all-offline-partitions --show-replica-info
            leader-election --election-type PREFERRED --all-topic-partitions
            hold
            rescue --plan {here}/plan.json --store {own}/rescue
            rescue --before-return {DEAD} --store {own}/before
            rescue --source {log} --store {own}/disk
            return --source {log}
            groups past-end --json
            groups reset
            internal-topics --json
            transactions list --json
            transactions finish
            diff replica:1/orders/0 replica:2/orders/0
            diff topic:orders/0 replica:2/orders/0
            capture --out {own}/bundle.zip
            exporter --once
            backup list --store {here}/backup --live
            backup run --store {own}/backup --topics orders
            backup restore --store {here}/backup --topics orders --map orders=back-{number} --write
            backup verify --store {here}/backup --against orders
            ksql backup --service-id svc --store {own}/commands
            ksql show --service-id svc
            ksql show --history --service-id svc
            metastore restore {self.backup} --store {own}/before --write
            checkpoint explain --topics orders
            checkpoint take --store {own}/checkpoints --topics orders --level vector
            checkpoint restore 1 --store {here}/checkpoints --suffix .{number} --write
        """
        return [tuple(line.split()) for line in lines.strip().splitlines()]

    def rehearse(self) -> None:
        """Run every command against honest brokers: each is one that this release accepts."""
        for words in self.commands(0):
            ended = self._agreed(words)
            print(f"honest  {' '.join(words[:2])}  {ended.code} {ended.seconds:.0f} s", flush=True)
            assert (ended.code == 2, ended.faults(SPARK_MB)) == (False, []), ended
            assert not self._untrue(words, ended.code, 0), words

    def play(self, seed: int) -> tuple[Peer, Ended, list[str]]:
        """Run one command against the peers of *seed*."""
        rng = random.Random(seed)
        words = rng.choice(self.commands(seed))
        peer = Peer(seed)
        false = rng.sample(self.proxies, rng.randint(1, len(self.proxies)))
        for proxy in false:
            proxy.distort(peer)
        try:
            ended = self._agreed(words)
        finally:
            peer.ended.set()
            for proxy in false:
                proxy.distort(None)
                proxy.sever()
        spark = words[0] in {"backup", "checkpoint"}
        faults = ended.faults(SPARK_MB if spark else PLAIN_MB)
        return peer, ended, [*faults, *self._untrue(words, ended.code, seed)]

    def _agreed(self, words: Sequence[str]) -> Ended:
        """Run *words*, and again with the consent that the refusal asks for."""
        ended = self._run(words)
        phrase = ended.err.strip().rpartition("consent: ")[2]
        if ended.code != 3 or "restore" not in words or "\n" in phrase or not phrase:
            return ended
        return self._run([*words, "--consent", phrase])

    def _untrue(self, words: Sequence[str], code: int | None, seed: int) -> list[str]:
        """What *words* ended well with, and is not so; a restore that failed is done again."""
        kind, kept = words[:2], self.folder / f"seed-{seed}" / "commands"
        if kind == ("ksql", "restore"):
            if code != 0:
                self._repaired(words)
            if self._commands() != self.lines:
                return ["the command topic is not what was backed up"]
        if code != 0:
            return []
        if kind == ("ksql", "backup"):
            texts = [path.read_text() for path in kept.rglob("*.bak")]
            if [line for text in texts for line in text.splitlines()] != self.lines:
                return ["the backup of the commands is not what was written"]
        if kind in {("backup", "restore"), ("checkpoint", "restore")}:
            name = f"back-{seed}" if kind[0] == "backup" else f"orders.{seed}"
            if contents(self.cluster, name) != self.written:
                return [f"{name} does not hold what was written"]
        return []

    def _commands(self) -> list[str]:
        found = contents(self.cluster, command_topic("svc"))
        return [f"{(one.key or b'').decode()}:{(one.value or b'').decode()}" for one in found]

    def _repaired(self, words: Sequence[str]) -> None:
        """Whatever a false peer left of a restore, the same command brings to its end."""
        ended = self._agreed(words)
        assert ended.code == 0, ended

    def _run(self, words: Sequence[str]) -> Ended:
        given = words_of([*words, "--bootstrap-server", self.bootstrap])
        state = {"XDG_STATE_HOME": str(self.folder / "state")}
        with tempfile.TemporaryFile() as out, tempfile.TemporaryFile() as err:
            began = time.monotonic()
            process = subprocess.Popen(
                given, stdout=out, stderr=err, stdin=subprocess.DEVNULL, env={**os.environ, **state}
            )
            hung = threading.Timer(HUNG_SECONDS, process.kill)
            hung.start()
            _, status, used = os.wait4(process.pid, 0)
            process.returncode = os.waitstatus_to_exitcode(status)
            code = None if hung.finished.is_set() else process.returncode
            hung.cancel()
            seconds = time.monotonic() - began
            texts = []
            for file in (out, err):
                file.seek(0)
                texts.append(file.read().decode(errors="replace"))
        said, remarked = texts
        return Ended(tuple(words), code, said, remarked, used.ru_maxrss // 1024, seconds)


def main() -> int:
    """Play seeds until the time has passed; 1 if one of them failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=3600)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--count", type=int, help="end after so many seeds")
    asked = parser.parse_args()
    failed, seed, largest, slowest = [], asked.seed, 0, 0.0
    with ExitStack() as stack:
        folder = Path(
            stack.enter_context(
                tempfile.TemporaryDirectory(dir=os.environ.get("PYTEST_DEBUG_TEMPROOT"))
            )
        )
        theatre = Theatre(stack, folder)
        theatre.rehearse()
        stop = time.monotonic() + asked.seconds
        while time.monotonic() < stop and (asked.count is None or seed < asked.seed + asked.count):
            peer, ended, faults = theatre.play(seed)
            largest, slowest = max(largest, ended.megabytes), max(slowest, ended.seconds)
            how = f"{ended.code} {ended.seconds:.0f} s {ended.megabytes} MB"
            print(f"{seed}  {' '.join(ended.words[:2])}  {how}  {'; '.join(faults)}", flush=True)
            if faults:
                failed.append(seed)
                EVIDENCE.mkdir(parents=True, exist_ok=True)
                text = [f"$ {' '.join(ended.words)}", *faults, *peer.told, ended.out, ended.err]
                (EVIDENCE / f"{seed}.txt").write_text("\n".join(text))
            seed += 1
    print(f"{seed - asked.seed} seeds, {largest} MB, {slowest:.0f} s; failed: {failed or 'none'}")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
