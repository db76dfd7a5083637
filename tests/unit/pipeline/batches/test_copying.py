"""A task writes the records of its range and no others, in parts, or leaves nothing behind."""

from __future__ import annotations

from pathlib import Path

import pytest

from services.errors import LogTruncated, TimedOut
from services.kafka.read_client import ReadClient
from services.kafka.wire.deadline import Deadline
from services.pipeline.batches.answer import FetchAnswer
from services.pipeline.batches.copying import SIP_BYTES, copy_range
from services.pipeline.batches.log_range import LogRange
from services.pipeline.part_writer import PartTarget
from services.topic_backup.folder import LocalFolder
from services.topic_backup.part import SegmentPart
from services.topic_backup.record import encode
from tests.fake_metadata import TOPIC_ID
from tests.unit.pipeline.batches.fake_log import ORDERS, FakeLog
from tests.unit.topic_backup.shapes import run

RUN = "r1"
SECONDS = 10.0


def wanted(start: int, end: int) -> LogRange:
    return LogRange(ORDERS, TOPIC_ID, 1, start, end)


def copied(
    client: ReadClient,
    folder: Path,
    one: LogRange,
    limit: int = 2**30,
    rate: float | None = None,
    patience: float = SECONDS,
) -> list[SegmentPart]:
    target = PartTarget(LocalFolder(folder), RUN, limit, rate)
    client.describe(Deadline.after(SECONDS))
    return list(copy_range(client, one, target, 4, patience))


def test_the_records_of_a_range_become_a_part(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    (part,) = copied(client, tmp_path, wanted(7, 33))
    assert (part.partition, part.first_offset, part.last_offset, part.count) == (3, 7, 32, 26)
    content = (tmp_path / part.records).read_bytes()
    assert content[1:] == b"".join(map(encode, run(7, 33)))


def test_a_part_that_is_full_is_followed_by_another(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    parts = copied(client, tmp_path, wanted(0, 50), limit=400)
    assert [one.first_offset for one in parts] == [0, 10, 20, 30, 40]
    whole = b"".join((tmp_path / one.records).read_bytes()[1:] for one in parts)
    assert whole == b"".join(map(encode, run(0, 50)))


def test_of_a_task_that_fails_nothing_is_left(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    log.stable = 50
    with pytest.raises(TimedOut, match="is stable as far as 50"):
        copied(client, tmp_path, wanted(0, 60), patience=0.2)
    assert list(tmp_path.iterdir()) == []


def test_a_log_that_was_cut_back_fails_the_task(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    epoch_end = FetchAnswer(0, 0, 9, 0, (), (4, 8), b"")
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(FetchAnswer, "decode", lambda *_, **__: epoch_end)
        with pytest.raises(LogTruncated, match="cut back to offset 8"):
            copied(client, tmp_path, wanted(0, 50))
    assert list(tmp_path.iterdir()) == []


def test_beside_live_traffic_little_is_asked_for_at_a_time(
    client: ReadClient, log: FakeLog, tmp_path: Path
) -> None:
    copied(client, tmp_path, wanted(0, 50), rate=1e9)
    assert {size for _, _, size in log.asked} == {SIP_BYTES}
