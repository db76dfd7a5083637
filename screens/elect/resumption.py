"""A journal taken up again as an undertaking: finished, or its orders put back."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING

from screens.elect.guarded_action import (
    READ_SECONDS,
    ConsentPhrase,
    Fresh,
    Stop,
    Undertaking,
    Waits,
)
from services.guard.consent import Price, consent_phrase
from services.model import TopicPartition
from services.recovery.execution.target import PartitionOutcome
from services.recovery.guarded.events import Tell
from services.recovery.guarded.rescue_choice import RescueChoice
from services.recovery.guarded.resumption import GuardedResume
from services.recovery.guarded.subject import ElectionSubject, subject_of_journal
from services.recovery.resume import JournalSurvey, survey

if TYPE_CHECKING:
    from services.kafka.read_client import ReadClient
    from services.session import Power, ReadAccess


@dataclass
class Resumption(Undertaking):
    """A journal taken up again: finished, or with *undo* its orders put back."""

    access: ReadAccess
    journal: Path
    undo: bool = False
    state: Path | None = None
    doing: str = field(default="resuming a recovery", init=False)
    divisible: bool = field(default=False, init=False)
    """A journal is taken up as a whole."""
    found: JournalSurvey | None = None
    """As it was read last."""
    _agreed: JournalSurvey | None = field(default=None, init=False)
    """As it was read after it was agreed to; a reading that began before may end later."""

    def freeze(self, client: ReadClient, waits: Waits, stop: Stop) -> ElectionSubject:  # noqa: ARG002
        self.found = self._survey(client)
        return subject_of_journal(self.found, undo=self.undo)

    def again(
        self,
        client: ReadClient,
        subject: ElectionSubject,
        waits: Waits,  # noqa: ARG002
        stop: Stop,  # noqa: ARG002
    ) -> Fresh:
        self.found = self._agreed = self._survey(client)
        now = subject_of_journal(self._agreed, undo=self.undo)
        return Fresh(now, dict(_differences(subject, now)))

    def _survey(self, client: ReadClient) -> JournalSurvey:
        from services.guard.journal import read

        return survey(client, read(self.journal), READ_SECONDS, self.access.native_rpc)

    def asked(self, subject: ElectionSubject) -> tuple[ConsentPhrase, ...]:
        """Elections are agreed to again, even where the journal holds a consent."""
        elections = super().asked(subject)
        held = [one.partition for one in subject.led]
        if elections or not held:
            return elections
        phrase = consent_phrase(held, Price(0))
        return (ConsentPhrase(f"undo {phrase.rpartition(' lose ')[0]}" if self.undo else phrase),)

    def carry_out(
        self,
        power: Power,
        subject: ElectionSubject,  # noqa: ARG002
        phrases: Sequence[str],
        rescue: RescueChoice,
        tell: Tell,
        stop: Stop,
    ) -> tuple[PartitionOutcome, ...]:
        assert self._agreed is not None, "it was surveyed before"
        return GuardedResume(power, self._agreed, self.undo, rescue, stop, self.state).run(
            phrases, tell
        )


def _differences(
    before: ElectionSubject, now: ElectionSubject
) -> Iterator[tuple[TopicPartition, str]]:
    """What is not as it was agreed to any more, and how."""
    stakes = {one.partition: one.stake for one in now.wanted}
    led = {one.partition for one in now.led}
    left = {one.partition: one.reason for one in now.left}
    for one in before.wanted:
        stake = stakes.pop(one.partition, None)
        if stake is None:
            yield one.partition, left.get(one.partition, "it is led by now")
        elif stake.price != one.stake.price:
            yield one.partition, f"it lost {one.stake.price} and would lose {stake.price}"
        elif not set(stake.abandons) <= set(one.stake.abandons):
            more = ", ".join(f"b{broker}" for broker in stake.abandons)
            yield one.partition, f"it would abandon {more}"
    for target in before.led:
        if target.partition in stakes:
            stakes.pop(target.partition)
            yield target.partition, "it has no leader again"
        elif target.partition not in led:
            yield target.partition, left.get(target.partition, "its leader changed")
    for partition in stakes:
        yield partition, "it has no leader again"
