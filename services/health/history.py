"""Counts since the start, in bounded memory: the older, the coarser, and no peak is lost."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from breakglass.services.health.counts import PartitionCounts

CAPACITY = 240


@dataclass(frozen=True, slots=True)
class Sample:
    """The highest counts of some time."""

    at_ms: int
    """When that time began."""
    offline: int
    under_min_isr: int
    under_replicated: int


@dataclass(frozen=True, slots=True)
class HistoryGap:
    """Time in which nothing could be read."""

    at_ms: int


@dataclass(frozen=True, slots=True)
class History:
    """Samples and gaps, oldest first; never more than `CAPACITY`."""

    moments: tuple[Sample | HistoryGap, ...] = ()

    @property
    def since_ms(self) -> int | None:
        """When it began; None before the first look."""
        return self.moments[0].at_ms if self.moments else None

    def counted(self, counts: PartitionCounts, now_ms: int) -> History:
        """With the counts of another look."""
        offline, minimum, replicated = (
            counts.offline,
            counts.under_min_isr,
            counts.under_replicated,
        )
        return self._with(Sample(now_ms, offline, minimum, replicated))

    def missed(self, now_ms: int) -> History:
        """With a look that failed; a gap that goes on stays one."""
        if self.moments and isinstance(self.moments[-1], HistoryGap):
            return self
        return self._with(HistoryGap(now_ms))

    def peak(self, of: Callable[[Sample], int]) -> int:
        """The highest value since the start."""
        return max((of(one) for one in self.moments if isinstance(one, Sample)), default=0)

    def line(self, of: Callable[[Sample], int], width: int, now_ms: int) -> list[int | None]:
        """The highest value in each of at most *width* equal parts of the time until *now_ms*.

        A part in which nothing happened repeats what was before; None where nothing was known.
        """
        if not self.moments or width < 1:
            return []
        parts = list(self._parts(min(width, len(self.moments)), now_ms))
        values: list[int | None] = []
        last: Sample | HistoryGap = self.moments[0]
        for part in parts:
            samples = [one for one in part or (last,) if isinstance(one, Sample)]
            values.append(max(map(of, samples)) if samples else None)
            last = part[-1] if part else last
        return values

    def _parts(self, number: int, now_ms: int) -> Iterator[list[Sample | HistoryGap]]:
        begin = self.moments[0].at_ms
        span = max(now_ms - begin, 1)
        parts: list[list[Sample | HistoryGap]] = [[] for _ in range(number)]
        for one in self.moments:
            place = (one.at_ms - begin) * number // span
            parts[min(max(place, 0), number - 1)].append(one)
        yield from parts

    def _with(self, moment: Sample | HistoryGap) -> History:
        moments = self.moments
        if len(moments) >= CAPACITY:
            moments = tuple(_merged(*moments[at : at + 2]) for at in range(0, len(moments), 2))
        return History((*moments, moment))


def _merged(
    first: Sample | HistoryGap, second: Sample | HistoryGap | None = None
) -> Sample | HistoryGap:
    """Two neighbours in one: the higher counts, for a peak must not fade with its age."""
    if not isinstance(second, Sample):
        return first
    if not isinstance(first, Sample):
        return Sample(first.at_ms, second.offline, second.under_min_isr, second.under_replicated)
    return Sample(
        first.at_ms,
        max(first.offline, second.offline),
        max(first.under_min_isr, second.under_min_isr),
        max(first.under_replicated, second.under_replicated),
    )
