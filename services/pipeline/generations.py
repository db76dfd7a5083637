"""The generations of a topic in one backup: a log that is not the old one's continuation.

A topic that was deleted and created anew, or whose log was cut by an unclean election, begins a
folder of its own, ``TOPIC~2``, ``TOPIC~3``: nothing is ever joined that was never one log.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from services.topic_backup.layout import folder_name
from services.topic_backup.store.store import Store


@dataclass(frozen=True, slots=True)
class Generation:
    """One folder of a topic."""

    topic: str
    number: int = 1

    @property
    def name(self) -> str:
        """The folder's name."""
        return folder_name(self.topic, self.number)

    @property
    def following(self) -> Generation:
        """The one that comes after it."""
        return Generation(self.topic, self.number + 1)


def latest(store: Store, topic: str) -> Generation:
    """The newest generation of *topic* in *store*; the first one where there is none."""
    named = re.compile(re.escape(topic) + r"~([1-9][0-9]{0,8})")
    numbers = [int(match[1]) for name in store.folders() if (match := named.fullmatch(name))]
    return Generation(topic, max(numbers, default=1))
