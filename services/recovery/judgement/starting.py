"""What is said before a broker is started whose disk nobody has read, in one place. Pure.

Being last in sync proves nothing about a disk: brokers acknowledge records before they flush them
(R26). And a broker that an election passed over truncates its log when it starts (R27).
"""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.model import TopicPartition
from breakglass.services.words.figures import partitions_text
from breakglass.services.words.moments import time_text

AS_IT_WAS = "its unread disk lost nothing"
IF_AS_IT_WAS = f"if {AS_IT_WAS}"
"""The condition of every sentence that says what an unread log brings back."""
IF_AS_THEY_WERE = "if their unread disks lost nothing"

COPY_FIRST = "breakglass rescue --source log:DIR"
"""Saves what a copied log folder holds."""
SAFE_WHEN = "breakglass can-start DIR"
"""Says what would be lost."""


def do_not_start(broker: int) -> str:
    """That *broker*, once it starts, truncates its logs to those of the leaders."""
    return f"do not start b{broker} before its log folder is copied: {COPY_FIRST}"


def check_first(broker: int) -> str:
    """That what *broker* alone has may be cut once it starts, and what says whether (R46)."""
    return f"check the disk of b{broker} before it starts: {SAFE_WHEN}"


@dataclass(frozen=True, slots=True)
class PassedOver:
    """A broker that is not to be started before its log folder is copied, or read."""

    broker: int
    partitions: tuple[TopicPartition, ...]
    """Partitions in which it would be cut, or may be."""
    at_ms: int
    """When it was passed over, or heard last; 0: not known."""
    source: str
    """How that is known."""
    proved: bool = True
    """False: it may have been passed over, and its disk alone says whether (R46)."""

    @property
    def act(self) -> str:
        """What to do before it is started."""
        return do_not_start(self.broker) if self.proved else check_first(self.broker)

    @property
    def sentence(self) -> str:
        """``an election passed b1 over in 5 partitions (journal ..., 12:00:03Z)``."""
        passed = "passed" if self.proved else "may have passed"
        at = f", {time_text(self.at_ms)}" if self.at_ms else ""
        return (
            f"an election {passed} b{self.broker} over in {partitions_text(len(self.partitions))} "
            f"({self.source}{at})"
        )

    @property
    def advice(self) -> str:
        """What to do before it is started, and why."""
        return f"{self.act}; {self.sentence}"


def rescue_before(broker: int) -> str:
    """The command that saves what *broker* cuts when it returns and leads."""
    return f"breakglass rescue --before-return {broker}"
