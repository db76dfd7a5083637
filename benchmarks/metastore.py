"""A command topic of a million commands: backing it up, appending to it, replaying, comparing.

The disk is what it is in both figures of a pair, and the two take turns within one run.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import Self

import psutil
from confluent_kafka import Producer

from benchmarks._copying import CONSUMER, _tool, broker
from benchmarks._measure import Options, meets, print_load, reaches
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import create_topic
from breakglass.services.metastore.backup_run import BackupJob, BackupOutcome, run_backup
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.live_backup import BackedUpTopic, LiveBackup, open_backup
from breakglass.services.metastore.log.reader import read_whole
from breakglass.services.metastore.settings import command_topic
from breakglass.services.metastore.topic import commands_in
from breakglass.services.pipeline.batches.reader import FetchedBatches
from breakglass.services.session import ReadAccess

COMMANDS = 1_000_000
APPENDED = 2_000
"""Single commands whose time is taken."""
RUNS = 3
BACKUP, APPEND, REPLAY, FLAT = 0.8, 1.5, 2.0, 5.0
GROUP = 10_000
IN_BATCH = 2_500
"""Commands of a record batch."""
SERVICE = "bench_"
SECONDS = 900.0
MEGABYTE = 1_000_000


def main(options: Options) -> bool:
    """Print each pair and its ratio; returns whether the targets are met."""
    count = options.records or COMMANDS
    print(f"metastore: {count:,} commands of 300 bytes")
    print_load()
    with TemporaryDirectory(prefix="breakglass-bench-", dir=Path.home()) as folder:
        written = _writing(Path(folder), count, options.runs or RUNS)
        appended = _appending(Path(folder))
    with broker(needed=count * 2_000) as (cluster, place):
        topic = command_topic(SERVICE)
        create_topic(cluster, topic, [[1]], {"retention.ms": "-1"})
        producer = Producer({"bootstrap.servers": cluster.bootstrap_servers, "linger.ms": 20})
        for command in commands(count):
            while True:
                try:
                    producer.produce(topic, key=command.key, value=command.value, partition=0)
                except BufferError:
                    producer.poll(0.1)
                else:
                    break
        assert producer.flush(SECONDS) == 0
        read = _reading(cluster, place, count)
    print_load()
    return written and appended and read


def commands(count: int) -> Iterator[CommandRecord]:
    """Commands of 300 bytes, a marker after each."""
    for number in range(count):
        yield CommandRecord(2 * number, *_parts(number), 1_593_540_976_000 + number)


def _parts(number: int) -> tuple[bytes, bytes]:
    """CREATE TYPE and DROP TYPE in turn, with the plans that ksqlDB writes."""
    name = b"T%07d" % (number // 2)
    if number % 2:
        key, text = b'"type/%s/drop"' % name, b"DROP TYPE %s;" % name
        ddl = b'{"@type":"dropTypeV1","typeName":"%s"}' % name
    else:
        key, text = b'"type/%s/create"' % name, b"CREATE TYPE %s AS INT;" % name
        ddl = b'{"@type":"registerTypeV1","type":"INTEGER","typeName":"%s"}' % name
    value = (
        b'{"statement":"%s","streamsProperties":{},"originalProperties":{"n":"%%s"},"plan":'
        b'{"@type":"ksqlPlanV1","statementText":"%s","ddlCommand":%s,"queryPlan":null},"version":18}'
    ) % (text, text, ddl)
    return key, value % (b"x" * max(0, 302 - len(key) - len(value)))


def _groups(count: int) -> Iterator[list[CommandRecord]]:
    group = []
    for command in commands(count):
        group.append(command)
        if len(group) == GROUP:
            yield group
            group = []
    if group:
        yield group


def _fetched(group: Sequence[CommandRecord]) -> FetchedBatches:
    """The answer to a Fetch that has *group*, in batches of a megabyte less."""
    batches = (group[at : at + IN_BATCH] for at in range(0, len(group), IN_BATCH))
    return FetchedBatches(0, b"".join(map(_batch, batches)), (), "the command topic")


def _batch(records: Sequence[CommandRecord]) -> bytes:
    from kafka.record.default_records import DefaultRecordBatchBuilder

    base = records[0].offset
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, GROUP * 1_000)
    for record in records:
        builder.append(record.offset - base, record.timestamp_ms, record.key, record.value, [])
    batch = builder.build()
    return base.to_bytes(8) + bytes(batch[8:])


@dataclass(frozen=True, slots=True)
class _Times:
    """Seconds that a group took."""

    finding: float
    """The commands in what was fetched."""
    ours: float
    plain: float


def _writing(folder: Path, count: int, runs: int) -> bool:
    """Groups of commands: ours, and the same bytes with the same number of fsyncs, in turn."""
    times: list[_Times] = []
    origin = BackedUpTopic(command_topic(SERVICE), "id", "cluster")
    for number in range(runs):
        with (
            open_backup(folder / f"ours-{number}", origin, lambda _: None) as backup,
            (folder / "plain").open("wb", buffering=0) as file,
        ):
            times += [_written(backup, file.fileno(), group) for group in _groups(count)]
    # The first group loads Arrow.
    rest = times[1:]
    finding, ours = sum(times.finding for times in rest), sum(times.ours for times in rest)
    plain, size = sum(times.plain for times in rest), len(rest) * GROUP * 302 / MEGABYTE
    print(f"  ours {size / ours:.0f} MB/s, plain {size / plain:.0f} MB/s")
    print(f"  with finding commands in what was fetched {plain / (ours + finding):.2f} of plain")
    return reaches(f"backup / the same bytes with fsync, {GROUP:,} each", plain / ours, BACKUP)


def _written(backup: LiveBackup, plain: int, group: Sequence[CommandRecord]) -> _Times:
    lines, fetched = b"".join([record.line for record in group]), _fetched(group)
    found: list[Sequence[CommandRecord]] = []

    def take() -> None:
        for commands in found:
            backup.take(commands)

    return _Times(
        _timed(lambda: found.extend(commands_in(fetched, 0))),
        _timed(take),
        _timed(lambda: _write(plain, lines)),
    )


def _appending(folder: Path) -> bool:
    """One command after the other: ours, and the bare call, in turn."""
    origin = BackedUpTopic(command_topic(SERVICE), "id", "cluster")
    ours, plain = [], []
    with (
        open_backup(folder / "single", origin, lambda _: None) as backup,
        (folder / "bare").open("wb", buffering=0) as file,
    ):
        for command in commands(APPENDED):
            plain.append(_timed(lambda command=command: _write(file.fileno(), command.line)))  # type: ignore[misc]
            ours.append(_timed(lambda command=command: backup.take([command])))  # type: ignore[misc]
    _print_times("ours", ours)
    _print_times("the bare call", plain)
    print(f"  one by one: {sum(plain) / sum(ours):.2f} of the bare calls' rate")
    return meets("p99 of an append / of the bare call", _p99(ours) / _p99(plain), APPEND)


def _print_times(name: str, seconds: Sequence[float]) -> None:
    print(f"  {name}: p50 {1000 * median(seconds):.2f} ms, p99 {1000 * _p99(seconds):.2f} ms")


def _p99(seconds: Sequence[float]) -> float:
    return quantiles(seconds, n=100)[98]


def _write(descriptor: int, data: bytes) -> None:
    os.write(descriptor, data)
    os.fsync(descriptor)


def _timed(act: Callable[[], object]) -> float:
    began = time.perf_counter()
    act()
    return time.perf_counter() - began


def _reading(cluster: Cluster, place: Path, count: int) -> bool:
    """Replay, first backup and restart comparison, each beside the consumer's own tool."""
    settings = ConnectionOptions(bootstrap_server=cluster.bootstrap_servers)
    access = ReadAccess(connection_settings(settings, {}))
    job = BackupJob(command_topic(SERVICE), place / "backups", checked=False)

    def back_up() -> BackupOutcome:
        return run_backup(access, job, lambda _: None)

    peer = [_consumed(cluster, count)]
    first = _timed(back_up)
    peer.append(_consumed(cluster, count))
    with _Memory() as memory:
        again = _timed(back_up)
    peer.append(_consumed(cluster, count))
    replay = _timed(lambda: read_whole(access, SERVICE, SECONDS))
    peer.append(_consumed(cluster, count))
    tool = median(peer)
    print(f"  first backup {first:.1f} s, restart {again:.1f} s, replay {replay:.1f} s")
    print(f"  kafka-consumer-perf-test.sh {tool:.1f} s")
    compared = meets("restart comparison / kafka-consumer-perf-test", again / tool, REPLAY)
    replayed = meets("replay / kafka-consumer-perf-test", replay / tool, REPLAY)
    flat = meets("MB that the second half of the restart adds to the first", memory.grown, FLAT)
    return compared and replayed and flat


class _Memory:
    """The most memory of this process in each half of a time, sampled."""

    def __init__(self) -> None:
        self._samples: list[int] = []
        self._ended = threading.Event()
        self._thread = threading.Thread(target=self._sample)

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._ended.set()
        self._thread.join()

    def _sample(self) -> None:
        process = psutil.Process()
        while not self._ended.wait(0.05):
            self._samples.append(process.memory_info().rss)

    @property
    def grown(self) -> float:
        """MB that the second half had more than the first."""
        half = len(self._samples) // 2
        return (max(self._samples[half:]) - max(self._samples[: half or 1])) / MEGABYTE


def _consumed(cluster: Cluster, count: int) -> float:
    """Seconds of kafka-consumer-perf-test.sh over the whole topic, its start included."""
    words = ("--topic", command_topic(SERVICE), "--num-records", str(count))
    return _timed(lambda: _tool(cluster, CONSUMER, *words))
