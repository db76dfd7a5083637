"""A log is read record by record as it is in batches, of any message format; gaps are explained."""

from __future__ import annotations

from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.pipeline.batches.log_range import LogRange, chunks_in
from breakglass.services.pipeline.committed_log import CommittedLog
from breakglass.services.pipeline.gaps import explained
from breakglass.services.pipeline.part_writer import exact_chunks
from breakglass.services.topic_backup.compression import Compression
from breakglass.services.topic_backup.record import encode
from breakglass.services.topic_backup.summary import Gap, GapReason
from tests.kit.fake_metadata import TOPIC_ID
from tests.unit.pipeline.batches.fake_log import ORDERS, TENS, FakeLog
from tests.unit.topic_backup.older_bytes import message_set, wrapped
from tests.unit.topic_backup.shapes import run

SECONDS = 10.0
HELD = [*range(3), *range(6, 9), 10, 13, *range(20, 50)]
"""Offsets; the others were compacted away."""


def committed_log(client: ReadClient, log: FakeLog) -> CommittedLog:
    """A log that begins in message format 1."""
    client.describe(Deadline.after(SECONDS))
    log.batches = [
        wrapped([*run(0, 3), *run(6, 9)], 1, Compression.GZIP),
        message_set(run(10, 11), 1),
        message_set(run(13, 14), 1),
        *TENS[2:],
    ]
    return CommittedLog(client.sender, 1, ORDERS)


def test_older_messages_are_read_record_by_record_as_in_batches(
    client: ReadClient, log: FakeLog
) -> None:
    exact = b"".join(bytes(chunk.data) for chunk in exact_chunks(committed_log(client, log), 1, 45))
    wanted = LogRange(ORDERS, TOPIC_ID, 1, 1, 45)
    assert b"".join(bytes(chunk.data) for chunk in chunks_in(client, wanted, SECONDS)) == exact
    records = [record for record in run(1, 45) if record.offset in HELD]
    assert exact == b"".join(map(encode, records))


def test_what_was_compacted_out_of_older_messages_is_explained(
    client: ReadClient, log: FakeLog
) -> None:
    spans = [(3, 6), (9, 10), (11, 13)]
    gaps = list(explained(committed_log(client, log), spans, compacted=True))
    assert gaps == [Gap(*span, GapReason.COMPACTION) for span in spans]
