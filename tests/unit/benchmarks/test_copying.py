"""What Kafka's tools told, read; and memory and processor time by role."""

from __future__ import annotations

import mmap
import os

import psutil
import pytest

from benchmarks._copying import consumer_rate, producer_rate
from benchmarks._usage import ROLES, Peak, anonymous, spent

CONSUMED = """\
start.time, end.time, data.consumed.in.MB, MB.sec, data.consumed.in.nMsg, nMsg.sec, \
rebalance.time.ms, fetch.time.ms, fetch.MB.sec, fetch.nMsg.sec
2026-01-31 12:00:00:000, 2026-01-31 12:00:05:000, 953.6743, 190.7, 1000000, 200000.0, \
3100, 1900, 501.9338, 526315.7895
"""
PRODUCED = """\
499 records sent, 99.8 records/sec (0.10 MB/sec), 1.0 ms avg latency, 9.0 ms max latency.
1000 records sent, 131.5 records/sec (125.46 MB/sec), 2.0 ms avg latency, 9.0 ms max latency, \
2 ms 50th, 3 ms 95th, 4 ms 99th, 5 ms 99.9th.
"""


def test_the_rate_of_the_consumer_is_that_of_fetching_alone() -> None:
    assert consumer_rate(CONSUMED, 1_000_000) == 501.9338


def test_a_consumer_that_read_too_little_has_no_rate() -> None:
    with pytest.raises(RuntimeError, match="did not read 1,000,001 records"):
        consumer_rate(CONSUMED, 1_000_001)


def test_the_rate_of_the_producer_is_the_last_one_it_tells() -> None:
    assert producer_rate(PRODUCED, 1000) == 125.46


@pytest.mark.parametrize("answer", [PRODUCED, ""])
def test_a_producer_that_sent_too_little_has_no_rate(answer: str) -> None:
    with pytest.raises(RuntimeError, match="did not send 1,001 records"):
        producer_rate(answer, 1001)


def test_memory_is_what_lies_in_no_file() -> None:
    before = anonymous(os.getpid())
    # Not of malloc, which may have kept as much from a test before.
    with mmap.mmap(-1, 50_000_000, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS) as held:
        for _ in range(50):
            held.write(b"x" * 1_000_000)
        assert 40 < anonymous(os.getpid()) - before < 60


def test_a_process_alone_is_the_driver() -> None:
    me = psutil.Process()
    with Peak(me) as peak:
        assert spent(me)["driver"] > 0
    assert set(peak.megabytes) == set(ROLES)
