"""What may be carried out under guard: frozen, agreed to, read again, run.

Everything here happens in the thread of an attempt.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, NamedTuple

from services.guard.consent import ConsentGroup
from services.model import TopicPartition
from services.recovery.execution.target import PartitionOutcome
from services.recovery.guarded.events import Tell
from services.recovery.guarded.rescue_choice import RescueChoice
from services.recovery.guarded.subject import ElectionSubject

if TYPE_CHECKING:
    from services.kafka.read_client import ReadClient
    from services.recovery.triage import Triage
    from services.session import Power

READ_SECONDS = 30.0
"""A broker must tell its log within this time to count."""

Waits = Callable[[str], None]
"""Hears whom a reading waits for."""
Stop = Callable[[], bool]


class ConsentPhrase(NamedTuple):
    """A phrase to be typed."""

    phrase: str
    why: str = ""
    """Why it stands alone; empty for the bulk."""
    partition: TopicPartition | None = None
    """The one that stands alone."""


class Fresh(NamedTuple):
    """A subject read again."""

    subject: ElectionSubject
    changed: Mapping[TopicPartition, str]
    """Why the consent does not hold any more; empty when it does."""


class Undertaking(ABC):
    """One thing to be carried out."""

    doing: str
    """``electing leaders``: what a read-only session is told about."""
    divisible: bool = True
    """Partitions may be left out of it."""

    @abstractmethod
    def freeze(self, client: ReadClient, waits: Waits, stop: Stop) -> ElectionSubject:
        """What is to be carried out, and its price."""

    @abstractmethod
    def again(
        self, client: ReadClient, subject: ElectionSubject, waits: Waits, stop: Stop
    ) -> Fresh:
        """*subject* read again after it was agreed to."""

    @abstractmethod
    def carry_out(
        self,
        power: Power,
        subject: ElectionSubject,
        phrases: Sequence[str],
        rescue: RescueChoice,
        tell: Tell,
        stop: Stop,
    ) -> tuple[PartitionOutcome, ...]:
        """Elect; nothing is asked any more. Raises what `GuardedElection.run` raises."""

    def asked(self, subject: ElectionSubject) -> tuple[ConsentPhrase, ...]:
        """The phrases that *subject* takes."""
        return tuple(_asked(one) for one in subject.groups)


def _asked(group: ConsentGroup) -> ConsentPhrase:
    alone = group.partitions[0] if group.why_alone else None
    return ConsentPhrase(group.phrase, group.why_alone, alone)


def waiting_of(found: Triage) -> str:
    """Whom *found* still waits for; empty when for nobody."""
    evidence = found.evidence
    return "; ".join(evidence.silent[one] for one in sorted(evidence.awaited))
