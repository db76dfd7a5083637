"""Reading a log back from its end: what is said to be whole is whole, whatever is damaged."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from breakglass.services.kafka.replicas.contents import (
    Expected,
    LogReading,
    LogToRead,
    Reached,
    check_batches,
)
from breakglass.services.model import EpochHistory, EpochRange, TopicPartition, Unknown
from tests.unit.topic_backup.batch_bytes import sealed

ORDERS = TopicPartition("orders", 3)
HEADER = (2, 0, 0)
LEADER_EPOCH = range(12, 16)
"""A header's bytes that consumers do not look at."""
NO_EPOCHS = Unknown("not read")


def batch(start: int, end: int, epoch: int = 0, size: int = 50) -> bytes:
    """A batch of the offsets ``[start, end)`` whose records are *size* bytes."""
    count = end - start
    fields = (epoch, *HEADER, count - 1, 0, 0, -1, -1, -1, count)
    return sealed(start, size, *fields, payload=bytes(size))


class DiskOfBatches:
    """Serves batches as a broker does: from the one on that holds the offset asked for."""

    def __init__(self, bounds: list[int], sizes: list[int] | None = None) -> None:
        self.bounds = bounds
        sizes = sizes or [50] * len(bounds)
        pairs = zip(bounds, bounds[1:], sizes, strict=False)
        self.batches = [batch(start, end, size=size) for start, end, size in pairs]
        self.asked: list[int] = []

    @property
    def size(self) -> int:
        return sum(map(len, self.batches))

    def log(self, *, gapless: bool = True, size: int | None = None) -> LogToRead:
        start, end = self.bounds[0], self.bounds[-1]
        return LogToRead(ORDERS, start, end, size, Expected(end, gapless, NO_EPOCHS))

    def fetch(self, offset: int, most: int) -> bytes:
        """At least the first batch, whole; the last may be cut."""
        self.asked.append(offset)
        place = max(at for at, start in enumerate(self.bounds[:-1]) if start <= offset)
        data = b"".join(self.batches[place:])
        return data[: max(most, len(self.batches[place]))]

    def read(self, share: int, log: LogToRead | None = None) -> LogReading:
        reading = LogReading(log or self.log(size=self.size), share)
        for _ in range(1000):
            if reading.done:
                return reading
            alone, at = reading.alone, reading.position
            reading.take(self.fetch(at, reading.wanted_bytes))
            if alone and reading.alone and reading.position == at:
                reading.corrupt(at, "its batch is never sent whole")
        raise AssertionError(f"no end of reading: {reading}")


bounds_of_batches = st.lists(st.integers(1, 30), min_size=1, max_size=20).map(
    lambda lengths: [sum(lengths[:count]) for count in range(len(lengths) + 1)]
)


@given(bounds_of_batches, st.integers(1, 4000), st.data())
def test_what_was_read_is_whole(bounds: list[int], share: int, data: st.DataObject) -> None:
    sizes = [data.draw(st.integers(1, 3000)) for _ in bounds]
    disk = DiskOfBatches(bounds, sizes)
    told_size = data.draw(st.sampled_from([disk.size, None, 1]))
    contents = disk.read(share, disk.log(size=told_size)).contents
    if contents is not None:
        assert contents.corrupt_at is None
        assert contents.verified_to == bounds[-1] or contents.stopped
        assert bool(contents.stopped) == (contents.verified_from > 0)


@given(bounds_of_batches, st.integers(1, 4000), st.booleans(), st.data())
def test_no_flipped_bit_is_within_what_is_said_to_be_whole(
    bounds: list[int], share: int, gapless: bool, data: st.DataObject
) -> None:
    disk = DiskOfBatches(bounds)
    place = data.draw(st.integers(0, len(disk.batches) - 1))
    damaged = bytearray(disk.batches[place])
    at, bit = data.draw(st.integers(0, len(damaged) - 1)), data.draw(st.integers(0, 7))
    assume(at not in LEADER_EPOCH)
    assume(gapless or at >= 8)  # Among gaps a moved batch may stand where it claims to.
    damaged[at] ^= 1 << bit
    disk.batches[place] = bytes(damaged)
    contents = disk.read(share, disk.log(gapless=gapless, size=disk.size)).contents
    if contents is not None and contents.verified_from <= bounds[place]:
        assert contents.verified_to <= bounds[place]
        assert contents.corrupt_at is None or contents.corrupt_at <= bounds[place]
        assert contents.corrupt_at is not None or contents.stopped


@pytest.mark.parametrize(("amid", "vouched"), [("newest", (0, 40)), ("older", None)])
def test_a_reading_that_stops_vouches_for_what_it_read_up_to_the_newest(
    amid: str, vouched: tuple[int, int] | None
) -> None:
    disk = DiskOfBatches(list(range(0, 1001, 10)), [200] * 101)
    reading = LogReading(disk.log(size=disk.size), 10_000 if vouched is None else 10**6)
    if vouched is None:
        while reading.bound == 1000:
            reading.take(disk.fetch(reading.position, reading.wanted_bytes))
        vouched = reading.bound, 1000
        reading.take(disk.batches[reading.position // 10])
    else:
        reading.take(b"".join(disk.batches[:4]))
    reading.stop("b1 throttles this user")
    contents = reading.contents
    assert contents is not None
    assert (contents.verified_from, contents.verified_to) == vouched, amid


HISTORY = EpochHistory((EpochRange(3, 0, 20), EpochRange(5, 20, 40)), 0)


@pytest.mark.parametrize(
    ("batches", "gapless", "epochs", "corrupt_at"),
    [
        ([(0, 10), (25, 30), (40, 50)], False, NO_EPOCHS, None),
        ([(0, 10), (25, 30), (40, 50)], True, NO_EPOCHS, 10),
        ([(0, 10), (40, 45), (20, 30)], False, NO_EPOCHS, 10),
        ([(0, 10, 3), (10, 20, 3), (20, 50, 5)], True, HISTORY, None),
        ([(0, 10, 3), (10, 20, 4), (20, 50, 5)], True, HISTORY, 10),
        ([(0, 10, 3), (10, 20, 1), (20, 50, 5)], True, HISTORY, 10),
    ],
    ids=[
        "gaps of a compacted log are none",
        "gaps of any other log are",
        "a batch that ran ahead among gaps is",
        "leader epochs as they were reached are none",
        "a leader epoch that was never reached is",
        "a leader epoch that falls is",
    ],
)
def test_what_is_damage(
    batches: list[tuple[int, ...]],
    gapless: bool,
    epochs: EpochHistory | Unknown,
    corrupt_at: int | None,
) -> None:
    data = b"".join(batch(*fields) for fields in batches)
    found = check_batches(data, Reached(0), 50, Expected(50, gapless, epochs))
    assert found.corrupt_at == corrupt_at
    assert corrupt_at is not None or found.position == 50


def test_what_was_written_since_the_log_end_was_read_is_left_alone() -> None:
    data = batch(0, 10) + batch(10, 20) + batch(20, 30)
    found = check_batches(data, Reached(0), 20, Expected(20, gapless=True, epochs=NO_EPOCHS))
    assert (found.position, found.corrupt_at) == (20, None)
