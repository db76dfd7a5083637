"""min.insync.replicas of the topics where it decides anything: asked for when needed, and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.model import Denied, TopicSettings, Unknown

KEPT_SECONDS = 60.0
"""After which a setting is asked for again; also one that may not be read."""


@dataclass(frozen=True, slots=True)
class _Kept:
    value: int | Unknown
    until: float
    """Seconds, on the clock of `Minimums`."""


class Minimums:
    """What was told, by topic. For one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    @property
    def told(self) -> Mapping[str, int | Unknown]:
        return {topic: one.value for topic, one in self._kept.items()}

    def missing(self, topics: Iterable[str]) -> list[str]:
        """Those of *topics* that have to be asked for, in order."""
        now = self._clock()
        return sorted(one for one in topics if one not in self._kept or self._kept[one].until < now)

    def learn(self, settings: Mapping[str, TopicSettings]) -> None:
        """Take in what was told.

        Where nothing was, for want of an answer and not of a right, what was told before stands,
        and is asked for again the next time.
        """
        now = self._clock()
        for topic, one in settings.items():
            self._kept[topic] = self._taken(topic, one.min_insync_replicas, now)

    def forget_all_but(self, topics: Iterable[str]) -> None:
        """Drop every topic but *topics*, so that what is kept stays small."""
        self._kept = {one: self._kept[one] for one in topics if one in self._kept}

    def _taken(self, topic: str, minimum: int | Unknown, now: float) -> _Kept:
        if isinstance(minimum, int | Denied):
            return _Kept(minimum, now + KEPT_SECONDS)
        before = self._kept.get(topic)
        return _Kept(before.value if before is not None else minimum, now)
