"""A partition of 10 GB on the screen: its first records, jumps to any offset, page after page.

As a backup and as a broker's log folder, on a terminal, the console watching a cluster meanwhile.
The files are sparse: indexes are whole, records are where somebody looks.

Partitions of any size that take little room: indexes are whole, records are where one looks.

What nobody looks at is a hole in a sparse file. A program that read more than it has to would
come upon zeros, and show damage.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from statistics import median, quantiles
from tempfile import TemporaryDirectory
from typing import NamedTuple

import numpy as np
from kafka.record.default_records import DefaultRecordBatchBuilder

from benchmarks._incident import incident_served
from benchmarks._many import in_memory
from benchmarks._measure import Options, Program, console, meets, print_load
from benchmarks._terminal import Terminal
from benchmarks.keys import DOWN, ENTER, PAGE_DOWN
from breakglass.services.record_batches import BATCH_HEADER, Record, TimestampType
from breakglass.services.topic_backup.layout import records_name, segment_index_name, segment_prefix
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.segment_reader import FIRST_POSITION, MAGIC

RECORD_BYTES = 1000
RECORDS_A_SEGMENT = 1_000_000
BATCH = 16
"""Records in one batch of a log."""
AROUND = 3_000
"""Records that are there on either side of where somebody looks."""
BEGAN_MS = 1_700_000_000_000

Spans = list[tuple[int, int]]


def sparse_backup(folder: Path, records: int, looked_at: Iterable[int]) -> None:
    """A partition 0 of so many records as Kafka Backup writes it, without a manifest."""
    folder.mkdir(parents=True)
    size = len(encode(_record(0)))
    for start in range(0, records, RECORDS_A_SEGMENT):
        prefix = segment_prefix(0, start)
        count = min(RECORDS_A_SEGMENT, records - start)
        _write_index(folder / segment_index_name(prefix), start, count, size)
        with (folder / records_name(prefix)).open("wb") as file:
            file.write(MAGIC)
            file.truncate(FIRST_POSITION + count * size)
            for first, last in _spans(looked_at, start, count):
                file.seek(FIRST_POSITION + (first - start) * size)
                file.write(b"".join(encode(_record(number)) for number in range(first, last)))


def _write_index(path: Path, start: int, count: int, size: int) -> None:
    entries = np.empty((count, 3), ">i8")
    numbers = np.arange(count)
    entries[:, 0] = start + numbers
    entries[:, 1] = FIRST_POSITION + numbers * size
    entries[:, 2] = size
    with path.open("wb") as file:
        file.write(MAGIC)
        file.write(entries.tobytes())


def sparse_log(folder: Path, records: int, looked_at: Iterable[int]) -> None:
    """A broker's log folder of so many records, an index entry for each batch."""
    folder.mkdir(parents=True)
    template = _batch()
    per_segment = RECORDS_A_SEGMENT // BATCH * BATCH
    for start in range(0, records, per_segment):
        count = min(per_segment, records - start) // BATCH
        path = folder / f"{start:020}.log"
        numbers = np.arange(1, count)
        entries = np.stack([numbers * BATCH + BATCH - 1, numbers * len(template)], 1)
        path.with_suffix(".index").write_bytes(entries.astype(">i4").tobytes())
        with path.open("wb") as file:
            file.truncate(count * len(template))
            for first, last in _spans(looked_at, start, count * BATCH):
                number = (first - start) // BATCH
                file.seek(number * len(template))
                for base in range(start + number * BATCH, last, BATCH):
                    # The offset is in no checksum.
                    file.write(base.to_bytes(8) + template[8:])


def _batch() -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, False, -1, -1, -1, 2**31)
    for number in range(BATCH):
        one = _record(number)
        builder.append(number, one.timestamp, one.key, one.value, [])
    content = bytearray(builder.build())
    assert len(content) > BATCH_HEADER.size
    return bytes(content)


def _record(offset: int) -> Record:
    value = b'{"id": "%010d", "text": "' % offset
    value += b"x" * (RECORD_BYTES - len(value) - 2) + b'"}'
    return Record(offset, TimestampType.CREATE, BEGAN_MS + offset, b"key-%010d" % offset, value)


def _spans(looked_at: Iterable[int], start: int, count: int) -> Iterator[tuple[int, int]]:
    """Where records are: around each place, and at both ends of the segment."""
    places = {start, start + count - 1, *looked_at}
    for place in sorted(places):
        first, last = max(start, place - AROUND), min(start + count, place + AROUND)
        if first < last:
            yield first, last


RECORDS = 10_000_000
JUMPS, PAGES = 20, 100
FIRST_SECONDS, JUMP_MILLISECONDS, PAGE_MILLISECONDS, MEGABYTES = 0.3, 50.0, 30.0, 200.0
NEEDED_BYTES = 2 * 10**9
PARTITIONS = 24

Open = Callable[[Terminal], float]
"""Shows the first records; returns the seconds that took."""


def main(options: Options) -> bool:
    """Print the figures of both kinds; returns whether all are within bounds."""
    count = options.records or RECORDS
    rng = random.Random(1)
    places = sorted(rng.randrange(count) for _ in range(options.runs or JUMPS))
    with (
        TemporaryDirectory(prefix="breakglass-bench-", dir=in_memory(NEEDED_BYTES)) as folder,
        incident_served(PARTITIONS) as served,
    ):
        root = Path(folder)
        sparse_backup(root / "backups" / "ledger", count, places)
        sparse_log(root / "logs" / "ledger-0", count, places)
        print(f"a partition of {count * RECORD_BYTES / 1e9:.0f} GB, {count:,} records")
        print_load()
        plain = console(served.address, served.folder)
        command = [*plain.command, "--store", root / "backups"]
        program = Program("breakglass", command, plain.environment)
        log = f"log:{root / 'logs' / 'ledger-0'}"
        found = [
            _measure(program, "a backup", _by_tree, places),
            _measure(program, "a log folder", lambda at: _by_address(at, log), places),
        ]
    return all(found)


def _by_tree(terminal: Terminal) -> float:
    terminal.press(DOWN + ENTER)
    terminal.wait_until(lambda text: "partition 0" in text)
    terminal.settle()
    terminal.press(DOWN)
    terminal.settle()
    return _first_shown(terminal, terminal.press("r"))


def _by_address(terminal: Terminal, address: str) -> float:
    terminal.press("o")
    terminal.wait_until(lambda text: "Open a source" in text)
    terminal.press(address)
    terminal.settle()
    return _first_shown(terminal, terminal.press(ENTER))


def _first_shown(terminal: Terminal, pressed: float) -> float:
    return terminal.wait_until(lambda text: "key-0000000000" in text) - pressed


def _measure(program: Program, what: str, open_it: Open, places: list[int]) -> bool:
    with Terminal(program) as terminal:
        terminal.wait_until(lambda text: "offline" in text)
        terminal.settle(1.0)
        terminal.press("6")
        terminal.wait_until(lambda text: "ledger" in text and "Size" in text)
        terminal.settle()
        first = open_it(terminal)
        terminal.settle()
        spent = [terminal.cpu()]
        pages = [terminal.painted(PAGE_DOWN) * 1000 for _ in range(PAGES)]
        spent.append(terminal.cpu())
        done = [_jump(terminal, place) for place in places]
        jumps = [jump.milliseconds for jump in done]
        peak = terminal.memory().peak
    print(f"  {what}")
    # Processor time is what is left of a figure on a machine with more to do.
    _print("page down", pages, (spent[1] - spent[0]) * 1000 / PAGES)
    _print("jump", jumps, sum(jump.cpu for jump in done) / len(done))
    return all([
        meets("first records on the screen", first, FIRST_SECONDS, " s"),
        meets("page down, p95", quantiles(pages, n=20)[-1], PAGE_MILLISECONDS, " ms"),
        meets("jump to an offset, p95", quantiles(jumps, n=20)[-1], JUMP_MILLISECONDS, " ms"),
        meets("memory at most", peak, MEGABYTES, " MB"),
    ])  # fmt: skip


def _print(what: str, found: list[float], cpu: float) -> None:
    print(
        f"  {what + ', median':<44} {median(found):6.2f} ms   worst {max(found):.1f} ms, "
        f"cpu {cpu:.1f} ms"
    )


class Jump(NamedTuple):
    """What one took, in milliseconds."""

    milliseconds: float
    cpu: float
    """Until nothing is painted any more."""


def _jump(terminal: Terminal, offset: int) -> Jump:
    """From Enter behind an offset to its record on the screen."""
    terminal.press("g")
    terminal.settle()
    terminal.press(str(offset))
    terminal.settle()
    before, pressed = terminal.cpu(), terminal.press(ENTER)
    wanted = f"offset {offset:,},"
    shown = terminal.wait_until(lambda text: wanted in text)
    terminal.settle()
    return Jump((shown - pressed) * 1000, (terminal.cpu() - before) * 1000)
