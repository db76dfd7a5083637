"""Which records of a partition were there before: an application may write them twice (H7)."""

from __future__ import annotations

from collections.abc import Iterable

from breakglass.services.checkpoint.kafka.control import LastOf
from breakglass.services.checkpoint.kafka.stamps import RecordOrigin, Stamp

Writer = tuple[str, int, str]
"""Topic id and partition of the input, and the group that reads it."""


class KnownRecords:
    """What one partition holds, as far as it was read.

    A writer goes through its input in order and writes into a partition in that order, without a
    gap. So what does not lie behind the last record of a writer was there before.
    """

    def __init__(self, lasts: Iterable[LastOf] = ()) -> None:
        """Begin with the *lasts* that were noted before."""
        self._last: dict[Writer, tuple[int, int]] = {
            (one.topic_id, one.partition, one.group): (one.offset, one.index) for one in lasts
        }

    @property
    def lasts(self) -> tuple[LastOf, ...]:
        """The last record of each writer, to be noted beside a state that is saved."""
        return tuple(LastOf(*writer, *at) for writer, at in self._last.items())

    def take(self, stamp: Stamp) -> bool:
        """Note a record; whether it is there for the first time."""
        cause = stamp.cause
        if cause is None:
            return True
        writer, at = _writer(cause), (cause.place.offset, cause.index)
        last = self._last.get(writer)
        if last is not None and at <= last:
            return False
        self._last[writer] = at
        return True


def _writer(cause: RecordOrigin) -> Writer:
    return cause.place.topic_id, cause.place.partition, cause.group
