"""min.insync.replicas of the topics where it decides anything: asked for when needed, and kept."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass

from breakglass.services.model import Denied, TopicSettings, Unknown

KEPT_SECONDS = 60.0
"""Seconds after which a setting is read again, also a setting that an ACL hides."""


@dataclass(frozen=True, slots=True)
class _Kept:
    value: int | Unknown
    until: float
    """Seconds, on the clock of `Minimums`."""


class Minimums:
    """What brokers reported, by topic. For one thread at a time."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._kept: dict[str, _Kept] = {}

    @property
    def known(self) -> Mapping[str, int | Unknown]:
        return {topic: minimum.value for topic, minimum in self._kept.items()}

    def missing(self, topics: Iterable[str]) -> list[str]:
        """The topics among *topics* that have to be read, in order."""
        now = self._clock()
        return sorted(
            topic for topic in topics if topic not in self._kept or self._kept[topic].until < now
        )

    def learn(self, settings: Mapping[str, TopicSettings]) -> None:
        """Take in *settings*, as brokers reported them.

        Where no broker answered, the setting known before stands, unless an ACL denies it,
        and is asked for again the next time.
        """
        now = self._clock()
        for topic, setting in settings.items():
            self._kept[topic] = self._taken(topic, setting.min_insync_replicas, now)

    def forget_all_but(self, topics: Iterable[str]) -> None:
        """Drop every topic but *topics*, so that what is kept stays small."""
        self._kept = {topic: self._kept[topic] for topic in topics if topic in self._kept}

    def _taken(self, topic: str, minimum: int | Unknown, now: float) -> _Kept:
        if isinstance(minimum, int | Denied):
            return _Kept(minimum, now + KEPT_SECONDS)
        before = self._kept.get(topic)
        return _Kept(before.value if before is not None else minimum, now)
