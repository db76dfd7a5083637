"""The act of preferred elections: leadership returns to the first replica of the assignment."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.guard.act import (
    PARTLY_FAILED,
    SUCCEEDED,
    Act,
    Armed,
    Ending,
    Front,
    Frozen,
    Means,
)
from breakglass.services.guard.consent import ConsentPhrase, Price, consent_phrase
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.acts.events import OutcomesReported
from breakglass.services.recovery.execution.confirm import Observer
from breakglass.services.recovery.execution.preferred import PreferredElections, preferred_targets
from breakglass.services.recovery.execution.target import ElectionTarget, PartitionOutcome

Targets = tuple[ElectionTarget, ...]


@dataclass(frozen=True, slots=True)
class ElectPreferred(Act[Targets]):
    """Elect the preferred replica where another replica leads."""

    doing: ClassVar[str] = "a preferred election"
    topics: tuple[str, ...]
    partitions: frozenset[TopicPartition]
    """Partitions without a leader are left out."""

    def freeze(self, front: Front) -> Frozen[Targets]:
        with front.reading() as client:
            snapshot = client.snapshot(Deadline.after(patience.SNAPSHOT), self.topics)
        online = [state for state in snapshot.partitions if not state.offline]
        targets = preferred_targets(
            [state for state in online if state.partition in self.partitions]
        )
        partitions = [target.partition for target in targets]
        phrase = consent_phrase(partitions, Price(0)) if targets else ""
        return Frozen(
            snapshot.cluster_id,
            (ConsentPhrase(phrase),) if targets else (),
            tuple((str(target.partition), f"elects b{target.designee}") for target in targets),
            tuple(map(str, partitions)),
            plan=targets,
        )

    def carry_out(self, front: Front, means: Means, frozen: Frozen[Targets]) -> Ending:
        """Elect them; the ending's value is the list of `PartitionOutcome`."""
        done: list[PartitionOutcome] = []
        with means.cluster.elections(frozen.cluster_id) as client:
            front.tell(Armed())
            elections = PreferredElections(
                client, Observer(client.reading()), means.journal, stop=front.stop
            )
            for batch in elections.run(frozen.plan):
                done += batch
                front.tell(OutcomesReported(batch))
        whole = all(outcome.succeeded for outcome in done)
        return Ending(SUCCEEDED if whole else PARTLY_FAILED, value=done)
