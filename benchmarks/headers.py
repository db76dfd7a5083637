"""Reading a record with very many headers: the time for each must not grow with their number."""

from __future__ import annotations

import time
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory

from benchmarks._measure import Options, print_load, reaches
from breakglass.services.record_batches import Record, TimestampType
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.layout import MANIFEST
from breakglass.services.topic_backup.manifest import TopicIdentity
from breakglass.services.topic_backup.reader import PartitionReader
from breakglass.services.topic_backup.topic_writer import TopicWriter

FEW, MANY, HEADER_BYTES = 2_500, 40_000, 800
RUNS = 5
LINEAR = 0.5


def main(options: Options) -> bool:
    """Print the headers a second of a small and a large record; returns whether they are alike."""
    print_load()
    rates = {}
    for headers in (FEW, MANY):
        with TemporaryDirectory() as folder:
            topic = _without_manifest(Path(folder), headers)
            seconds = median(_seconds(topic) for _ in range(options.runs or RUNS))
        rates[headers] = headers / seconds
        print(f"{headers:,} headers of {HEADER_BYTES} bytes: {rates[headers]:,.0f} a second")
    return reaches("many / few", rates[MANY] / rates[FEW], LINEAR)


def _without_manifest(root: Path, headers: int) -> LocalFolder:
    """A folder as Kafka Backup writes it, which the salvaging reader reads."""
    content = tuple((b"h%d" % number, bytes(HEADER_BYTES)) for number in range(headers))
    with TopicWriter(root, TopicIdentity("orders")) as writer:
        writer.partition(0).append(Record(0, TimestampType.CREATE, 0, b"k", b"v", content))
        writer.commit()
    (root / "orders" / MANIFEST).unlink()
    return LocalFolder(root / "orders")


def _seconds(topic: LocalFolder) -> float:
    began = time.monotonic()
    assert len(list(PartitionReader(topic, 0, None).records())) == 1
    return time.monotonic() - began
