"""Which epoch question to ask a replica next: a pure search through its leader epoch cache.

A broker asked for epoch *e* answers with the largest epoch not above *e* that its replica
holds and that epoch's end offset, or "out of range" when *e* is above its latest
(LeaderEpochFileCache.endOffsetFor). Asked below its first epoch, it echoes *e* with the
first epoch's start. From such answers the walk finds the last written epoch, then goes
down, one range a question.
"""

from __future__ import annotations

from typing import NamedTuple

from breakglass.services.model import EpochHistory, EpochRange


class EpochEnd(NamedTuple):
    """A broker's answer: *epoch* ends at offset *end* in its replica."""

    epoch: int
    end: int


class EpochWalk:
    """The walk for one replica: take `question`, `answer` it, until there is none.

    *hint* is any epoch known to be in the log (that of the newest batch): a good guess
    saves the binary search. *current* bounds the search from above.
    """

    def __init__(self, log_end: int, current: int, hint: int | None) -> None:
        self._start, self._end = 0, log_end
        self._low, self._high = -1, max(current, hint or 0)
        self._found: list[EpochEnd] = []
        """Newest first; each one's end is the start of the one before."""
        self._at_bottom = log_end == 0
        first = hint if hint is not None and hint >= 0 else self._high
        self.question: int | None = first if log_end > 0 else None

    @property
    def astray(self) -> bool:
        """It ended without an epoch, on a log not known to be empty.

        The replica's cache is empty, as of one that was out of its leader's range
        (UnifiedLog.truncateFullyAndStartAt), or the log changed meanwhile.
        """
        return self.question is None and not self._found and not self._at_bottom

    @property
    def begun(self) -> bool:
        """An epoch was found, or the log is known to hold no record."""
        return bool(self._found) or self._at_bottom

    @property
    def depth(self) -> int:
        """How many epochs are known from end to start, those that wrote nothing included."""
        return len(self._found) if self._at_bottom else max(0, len(self._found) - 1)

    @property
    def history(self) -> EpochHistory:
        """What is known so far."""
        ends = [found.end for found in self._found]
        if not ends:
            return EpochHistory((), self._start if self._at_bottom else self._end)
        floor = self._start if self._at_bottom else ends[-1]
        ranges = tuple(
            EpochRange(found.epoch, max(start, self._start), end)
            for found, end, start in zip(self._found, ends, [*ends[1:], floor], strict=True)
            if end > max(start, self._start)
        )
        return EpochHistory(ranges[::-1], max(floor, self._start))

    def answer(self, reply: EpochEnd | None, log_start: int) -> None:
        """Take the broker's answer to `question`; None means "above my latest epoch"."""
        asked = self.question
        if asked is None:
            raise ValueError("the walk is over: nothing was asked")
        self._start = max(self._start, log_start)
        if self._start >= self._end:
            self._finish()
        elif self._found:
            self._go_down(reply)
        else:
            self._search(asked, reply)

    def start_at(self, log_start: int) -> None:
        """Take the log's start from elsewhere: a walk that went astray cannot learn it."""
        self._start = max(self._start, log_start)
        if self._start >= self._end:
            self._finish()

    def _search(self, asked: int, reply: EpochEnd | None) -> None:
        if reply is None:
            self._high = asked - 1
        elif reply.end >= self._end:
            self._take(EpochEnd(reply.epoch, self._end))
            return
        else:
            self._low = asked
        # Low meets high without a find only in a log without epochs, or one that changed.
        middle = (self._low + self._high + 1) // 2
        self.question = middle if self._low < self._high else None

    def _go_down(self, reply: EpochEnd | None) -> None:
        if reply is None or reply.end <= self._start:
            self._finish()
        else:
            self._take(reply)

    def _take(self, found: EpochEnd) -> None:
        self._found.append(found)
        if found.epoch <= 0:
            self._finish()
        else:
            self.question = found.epoch - 1

    def _finish(self) -> None:
        self._at_bottom = True
        self.question = None
