"""One replica's leader epoch cache as Kafka keeps and asks it: the model that walks are held to.

Follows LeaderEpochFileCache.java (assign, truncateFromStart, truncateFromEnd, endOffsetFor) and
Partition.readRecords (kafka/cluster/Partition.scala) of Kafka 4.3.1.
"""

from bisect import bisect_right
from dataclasses import dataclass, field
from itertools import groupby

from breakglass.services.kafka.replicas.list_offsets import EpochEnd
from breakglass.services.model import EpochRange

UNDEFINED = (-1, -1)


@dataclass
class ModelReplica:
    """A log, record by record, with its epoch cache beside it."""

    records: list[int] = field(default_factory=list)
    """The epoch of each offset from 0, those below *start* included."""
    start: int = 0
    cache: list[tuple[int, int]] = field(default_factory=list)
    """(epoch, start offset), both ascending."""

    @property
    def end(self) -> int:
        return len(self.records)

    def lead(self, epoch: int) -> None:
        """Become leader: the epoch begins at the log's end, before anything is written."""
        self._assign(epoch, self.end)

    def append(self, epoch: int, count: int) -> None:
        """Write *count* records of *epoch*, as its leader or as a follower."""
        if count:
            self._assign(epoch, self.end)
            self.records += [epoch] * count

    def truncate(self, end: int) -> None:
        """Cut off what is at *end* and above (truncateFromEnd)."""
        end = max(end, self.start)
        if end < self.end:
            del self.records[end:]
            while self.cache and self.cache[-1][1] >= end:
                self.cache.pop()

    def delete_below(self, start: int) -> None:
        """Retention, or DeleteRecords (truncateFromStart)."""
        start = min(start, self.end)
        if start <= self.start:
            return
        self.start = start
        below = [pair for pair in self.cache if pair[1] <= start]
        if below:
            self.cache = [(below[-1][0], start), *self.cache[len(below) :]]

    def start_over(self, start: int) -> None:
        """Follow a leader whose log begins at *start* (truncateFullyAndStartAt)."""
        self.records, self.start, self.cache = [0] * start, start, []

    def end_offset_for(self, epoch: int) -> tuple[int, int]:
        """(epoch, end offset) for a question, or `UNDEFINED` (endOffsetFor)."""
        if self.cache and self.cache[-1][0] == epoch:
            return epoch, self.end
        place = bisect_right([one for one, _ in self.cache], epoch)
        if place == len(self.cache):
            return UNDEFINED
        higher_start = self.cache[place][1]
        return (epoch if place == 0 else self.cache[place - 1][0]), higher_start

    def answer(self, epoch: int) -> tuple[EpochEnd | None, int]:
        """What Fetch with *epoch* as last fetched epoch tells, and the log start beside it.

        An error tells no log start.
        """
        found = self.end_offset_for(epoch)
        return (None, -1) if found == UNDEFINED else (EpochEnd(*found), self.start)

    @property
    def ranges(self) -> tuple[EpochRange, ...]:
        """What each epoch wrote of what the log still holds, counted record by record."""
        held = range(self.start, self.end)
        groups = [
            (epoch, list(offsets)) for epoch, offsets in groupby(held, key=self.records.__getitem__)
        ]
        return tuple(EpochRange(epoch, some[0], some[-1] + 1) for epoch, some in groups)

    @property
    def newest_epoch(self) -> int | None:
        """What a timestamp search tells: the epoch of the newest batch."""
        return self.records[-1] if self.start < self.end else None

    def _assign(self, epoch: int, start: int) -> None:
        if self.cache and self.cache[-1][0] == epoch and start >= self.cache[-1][1]:
            return
        while self.cache and (self.cache[-1][0] >= epoch or self.cache[-1][1] >= start):
            self.cache.pop()
        self.cache.append((epoch, start))
