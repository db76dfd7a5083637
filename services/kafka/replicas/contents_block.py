"""Which stretch of one log is read next to verify its contents, and how far that has come. Pure.

A log is read in blocks from its end back to its start, and each block from its first offset on.
"""

from __future__ import annotations

from dataclasses import dataclass, field

from breakglass.services.kafka.replicas.batch_check import Expected, Reached, check_batches
from breakglass.services.model import LogContents, TopicPartition

RECORD_BYTES = 1024
"""Taken for the size of a record where the size of the log is not known."""
SLACK = 1.25
LEAST_BYTES = 16 * 1024
"""Asked for at least."""
CHUNK_BYTES = 1024 * 1024
"""Asked for at most."""
TOO_DENSE = 2
"""A block of so many times the bytes that were meant for it is begun again, smaller."""
OVERDRAFT = 4
"""So many times its share a log may cost, where its records are of very different sizes."""
BUDGET_ENDED = "the budget of the reading ended"


@dataclass(frozen=True, slots=True)
class LogToRead:
    """One replica whose contents are to be verified."""

    partition: TopicPartition
    start: int
    end: int
    """Past `start`: there is something to read."""
    size: int | None
    """Bytes on disk, if they are known."""
    expected: Expected


@dataclass(slots=True)
class LogReading:
    """The reading of one log under way."""

    log: LogToRead
    share: int
    """Bytes that may be read of it."""
    bound: int = field(init=False)
    """Whole from here to the end, or to where it is corrupt."""
    begin: int = field(init=False)
    """Where the block begins that is being read; it ends at `bound`."""
    reached: Reached = field(init=False)
    verified_to: int = field(init=False)
    corrupt_at: int | None = None
    damage: str = ""
    bytes_read: int = 0
    stopped: str = ""
    done: bool = False
    alone: bool = False
    """It is asked for alone next: a broker sends the first batch of an answer whole."""
    _in_block: int = 0
    _meant: int = 0
    _per_offset: float = field(init=False)

    def __post_init__(self) -> None:
        log = self.log
        self.bound = self.verified_to = log.end
        offsets = log.end - log.start
        self._per_offset = RECORD_BYTES if log.size is None else max(log.size / offsets, 1.0)
        self._next_block()

    @property
    def position(self) -> int:
        return self.reached.position

    @property
    def wanted_bytes(self) -> int:
        """How much to ask for from `position` on."""
        expected = (self.bound - self.position) * self._per_offset * SLACK
        return max(LEAST_BYTES, min(CHUNK_BYTES, int(expected) + 1))

    def take(self, data: bytes) -> None:
        """Account for the answer to `position`, which has some bytes."""
        self.bytes_read += len(data)
        self._in_block += len(data)
        before = self.position
        self.reached = check_batches(data, self.reached, self.bound, self.log.expected)
        self.alone = self.position == before
        if self.reached.corrupt_at is not None:
            self.corrupt(self.reached.corrupt_at, self.reached.damage)
        elif self.position >= self.bound:
            self._ended_block(self.begin)
        elif self._in_block > TOO_DENSE * self._meant:
            self._again_smaller()

    def corrupt(self, at: int, damage: str) -> None:
        """The block cannot be read from offset *at* on."""
        self.corrupt_at, self.damage = max(at, self.log.start), damage
        self.verified_to = self.corrupt_at
        self._ended_block(min(self.begin, self.corrupt_at))

    def stop(self, why: str) -> None:
        """Read nothing more of it."""
        if self.bound == self.log.end and self.corrupt_at is None:
            # Of the newest block a part is better than nothing.
            self.bound, self.verified_to = self.begin, self.position
        self.stopped, self.done = why, True

    @property
    def contents(self) -> LogContents | None:
        """What is known by now; None where nothing was read."""
        if self.verified_to <= self.bound and self.corrupt_at is None:
            return None
        return LogContents(
            min(self.bound, self.verified_to),
            self.verified_to,
            self.corrupt_at,
            self.damage,
            self.bytes_read,
            self.stopped,
        )

    def _ended_block(self, whole_from: int) -> None:
        offsets = max(self.position - self.begin, 1)
        if self._in_block:
            self._per_offset = max(self._in_block / offsets, 1.0)
        self.bound = whole_from
        if self.bound <= self.log.start:
            self.done = True
        else:
            self._next_block()

    def _next_block(self) -> None:
        """Everything that is left, if it fits into the share; else half of what may be read."""
        left = self.share - self.bytes_read
        if left <= 0:
            self.stop(BUDGET_ENDED)
            return
        offsets = self.bound - self.log.start
        meant = int(offsets * self._per_offset)
        if meant > left:
            meant = max(left // 2, 1)
            offsets = min(offsets, max(int(meant / self._per_offset), 1))
        self._begin(self.bound - offsets, meant)

    def _again_smaller(self) -> None:
        """Fewer offsets of the same end: its records are larger than the log's as a whole."""
        if self.bytes_read > OVERDRAFT * self.share:
            self.stop(BUDGET_ENDED)
            return
        self._per_offset = self._in_block / max(self.position - self.begin, 1)
        offsets = max(int(max(self.share // 2, 1) / self._per_offset), 1)
        if self.bound - offsets > self.position:
            self._begin(self.bound - offsets, int(offsets * self._per_offset))
        else:
            self._meant = self._in_block * TOO_DENSE

    def _begin(self, offset: int, meant: int) -> None:
        self.begin, self._meant, self._in_block = offset, max(meant, LEAST_BYTES), 0
        self.reached = Reached(offset)
