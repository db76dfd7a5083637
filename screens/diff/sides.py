"""Which two brokers are compared: as asked for, or the best and the one that loses most."""

from __future__ import annotations

from breakglass.services.divergence.replicas import Facing, default_pair, face, readable
from breakglass.services.incident.incident import Incident
from breakglass.services.model import PartitionEvidence, TopicPartition, Unknown
from breakglass.services.recovery.judgement.assessment import Assessment


class ChosenSides:
    """The choice of one screen; what is not chosen follows what is known."""

    def __init__(self, partition: TopicPartition, left: int | None, right: int | None) -> None:
        self.partition = partition
        self._left, self._right = left, right
        self.best: int | None = None
        """Who leads the ranking, as far as is known."""

    def facing(self, incident: Incident | None) -> Facing | Unknown:
        """The two replicas as they are known now, or why they cannot be compared."""
        found = self._assessment(incident)
        if isinstance(found, Unknown):
            return found
        self.best = found.best
        chosen = self._chosen(found.evidence, found.best)
        return chosen if isinstance(chosen, Unknown) else face(found.evidence, *chosen)

    def turn(self, side: str, incident: Incident | None) -> str:
        """Choose the next readable replica for *side*; returns why there is none, or nothing."""
        found = self._assessment(incident)
        if isinstance(found, Unknown):
            return found.reason
        chosen = self._chosen(found.evidence, found.best)
        if isinstance(chosen, Unknown):
            return chosen.reason
        mine, other = chosen if side == "left" else chosen[::-1]
        brokers = [
            replica.broker for replica in readable(found.evidence) if replica.broker != other
        ]
        if not set(brokers) - {mine}:
            return f"No third replica can be read. {_silence(found.evidence)}"
        place = brokers.index(mine) if mine in brokers else -1
        turned = brokers[(place + 1) % len(brokers)]
        self._left, self._right = (turned, other) if side == "left" else (other, turned)
        return ""

    def swap(self, incident: Incident | None) -> None:
        """Swap the sides."""
        found = self._assessment(incident)
        if not isinstance(found, Unknown):
            chosen = self._chosen(found.evidence, found.best)
            if not isinstance(chosen, Unknown):
                self._right, self._left = chosen

    def _chosen(self, evidence: PartitionEvidence, best: int | None) -> tuple[int, int] | Unknown:
        if self._left is not None and self._right is not None:
            return self._left, self._right
        first = best if self._left is None else self._left
        pair = default_pair(evidence, first)
        if isinstance(pair, Unknown):
            return pair
        left = pair[0] if self._left is None else self._left
        return left, pair[1] if self._right is None else self._right

    def _assessment(self, incident: Incident | None) -> Assessment | Unknown:
        if incident is None:
            return Unknown("The cluster is being read.")
        if incident.row(self.partition) is None:
            return Unknown(f"{self.partition} is not offline: its replicas follow one leader.")
        return incident.assessment(self.partition) or Unknown(
            f"The replicas of {self.partition} have not been read yet."
        )


def _silence(evidence: PartitionEvidence) -> str:
    """Why the others cannot be read."""
    reasons = [
        replica.log_end.reason
        for replica in evidence.replicas
        if isinstance(replica.log_end, Unknown)
    ]
    return "; ".join(reasons)
