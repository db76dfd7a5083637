"""A producer in a process of its own: as fast as it goes, or at a rate, with every latency.

``python -m benchmarks._load BOOTSTRAP TOPIC [TRANSACTIONAL-ID]``: windows come in as lines of JSON,
and figures go out. Latencies count from when a record was due, so a producer that falls behind
shows it.
"""

from __future__ import annotations

import gc
import json
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass

from confluent_kafka import KafkaError, Message, Producer

RECORD_BYTES = 1000
PARTITIONS = 4
IN_FLIGHT = 10_000
"""Records that wait for their acknowledgement in a closed loop."""
QUEUED = 90_000
"""Records that the client keeps at most: it has room for 100,000."""
TICK_SECONDS = 0.005
TRANSACTION_SECONDS = 0.1
"""As Kafka Streams commits with exactly-once semantics."""
SETTINGS = {"acks": "all", "enable.idempotence": True, "linger.ms": 5}


@dataclass(frozen=True, slots=True)
class Window:
    """What became of the records of one window."""

    records: int
    """Acknowledged within it."""
    seconds: float
    p50_ms: float
    p99_ms: float

    @property
    def rate(self) -> float:
        """Records a second."""
        return self.records / self.seconds


class Load:
    """The process, from the other side."""

    def __init__(self, process: subprocess.Popen[str]) -> None:
        self._process = process

    def run(self, seconds: float, rate: float | None = None) -> Window:
        """Send for so long, at so many records a second; None: in a closed loop."""
        assert self._process.stdin
        assert self._process.stdout
        print(json.dumps([seconds, rate]), file=self._process.stdin, flush=True)
        answer = self._process.stdout.readline()
        if not answer:
            raise RuntimeError(f"the producer ended with {self._process.wait()}")
        return Window(**json.loads(answer))


@contextmanager
def load(bootstrap: str, topic: str, *, transactional: bool = False) -> Iterator[Load]:
    """A producer that sends nothing yet; a *transactional* one sends in transactions."""
    command = [sys.executable, "-m", "benchmarks._load", bootstrap, topic]
    command += ["load"] * transactional
    with subprocess.Popen(
        command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    ) as process:
        yield Load(process)
        assert process.stdin
        process.stdin.close()


class _Sender:
    def __init__(self, bootstrap: str, topic: str, transactional_id: str = "") -> None:
        own = {"transactional.id": transactional_id} if transactional_id else {}
        self._producer = Producer({"bootstrap.servers": bootstrap, **SETTINGS, **own})
        self._ends: float | None = None
        """When the current transaction is to be committed; None: there are no transactions."""
        if transactional_id:
            self._producer.init_transactions()
            self._ends = 0.0
        self._topic = topic
        self._value = bytes(range(256)) * (RECORD_BYTES // 256) + bytes(RECORD_BYTES % 256)
        self._sent = 0
        self._waited: list[float] = []
        """Seconds from when a record was due to its acknowledgement."""

    def closed_loop(self, seconds: float) -> Window:
        """Send a record whenever one was acknowledged."""
        began = self._begin()
        while time.perf_counter() < began + seconds:
            for _ in range(IN_FLIGHT - self._sent + len(self._waited)):
                self._send(time.perf_counter())
            self._producer.poll(TICK_SECONDS)
            self._commit()
        return self._over(began)

    def at_rate(self, seconds: float, rate: float) -> Window:
        """Send what is due, tick by tick, as far as the client takes it."""
        began = self._begin()
        while (now := time.perf_counter()) < began + seconds:
            due = min(int((now - began) * rate), len(self._waited) + QUEUED)
            for number in range(self._sent, due):
                self._send(began + number / rate)
            self._producer.poll(TICK_SECONDS)
            self._commit()
        return self._over(began)

    def _begin(self) -> float:
        if self._ends is not None:
            self._producer.begin_transaction()
            self._ends = time.perf_counter() + TRANSACTION_SECONDS
        return time.perf_counter()

    def _commit(self) -> None:
        """Commit what was sent once it is time, and begin the next transaction."""
        if self._ends is not None and time.perf_counter() >= self._ends:
            self._producer.commit_transaction()
            self._begin()

    def _send(self, due: float) -> None:
        def acknowledged(error: KafkaError | None, _: Message) -> None:
            assert error is None, error
            self._waited.append(time.perf_counter() - due)

        partition = self._sent // 100 % PARTITIONS
        self._sent += 1
        self._producer.produce(self._topic, self._value, None, partition, acknowledged)

    def _over(self, began: float) -> Window:
        records, seconds = len(self._waited), time.perf_counter() - began
        self._producer.flush()
        if self._ends is not None:
            self._producer.commit_transaction()
        waited = sorted(self._waited)
        self._sent, self._waited = 0, []
        p50, p99 = (1000 * waited[int(len(waited) * share)] for share in (0.5, 0.99))
        return Window(records, seconds, p50, p99)


def serve(bootstrap: str, topic: str, transactional_id: str = "") -> None:
    """Send in the windows that stdin names, until it ends."""
    gc.disable()
    sender = _Sender(bootstrap, topic, transactional_id)
    for line in sys.stdin:
        seconds, rate = json.loads(line)
        window = sender.closed_loop(seconds) if rate is None else sender.at_rate(seconds, rate)
        print(json.dumps(asdict(window)), flush=True)


if __name__ == "__main__":
    serve(*sys.argv[1:])
