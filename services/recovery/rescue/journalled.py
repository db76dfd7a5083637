"""Rescue as a step of a recovery: announced in the journal before it, and told after it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.execution.record import ExecutionJournal, described
from breakglass.services.recovery.execution.target import ElectionTarget
from breakglass.services.recovery.rescue.rescue import Rescuer, divide, new_folder
from breakglass.services.recovery.rescue.results import RescuedPartition, Saved
from breakglass.services.recovery.rescue.spans import AtRisk, Share, shares_of

STEP = "rescue"
"""The step's name in the journal. It changes nothing on the cluster."""
SAVED = "saved"
NOT_SAVED = "not saved"


@dataclass(frozen=True, slots=True)
class JournalledRescue:
    """Rescues on the evidence that the elections were agreed to on (`recover.Rescue`)."""

    rescuer: Rescuer
    evidence: Mapping[TopicPartition, PartitionEvidence]
    """Of every target."""
    to: Path
    """Each rescue makes a folder of its own there."""
    tell: Callable[[Sequence[RescuedPartition]], None] = lambda _: None
    """Told of every partition that something was to be saved of."""

    def needed(self, target: ElectionTarget) -> bool:
        """Whether electing *target* cuts off anything that may be saved; asks nobody."""
        return shares_of(self._at_risk(target)) != ()

    def save(
        self, targets: Sequence[ElectionTarget], journal: ExecutionJournal
    ) -> Mapping[TopicPartition, str]:
        """Save what electing *targets* cuts off; a reason for each that was not saved whole.

        Raises:
            StorageError: the journal cannot be written.
        """
        at_risk = {one.partition: self._at_risk(one) for one in targets}
        shares, unknown = divide(list(at_risk.values()))
        endangered = [one for one in targets if one.partition in {*shares, *unknown}]
        if not endangered:
            return {}
        folder = new_folder(self.to, self.rescuer.cluster_id)
        items = {
            one.partition: {**described(one), "rescue": _wanted(shares.get(one.partition, ()))}
            for one in endangered
        }
        request = journal.request(STEP, items, to=folder)
        results = self.rescuer.rescue([at_risk[one.partition] for one in endangered], folder)
        journal.outcome(request, {one.partition: _told(one) for one in results})
        self.tell(results)
        return {one.partition: one.reason for one in results if not one.whole}

    def _at_risk(self, target: ElectionTarget) -> AtRisk:
        return AtRisk(self.evidence[target.partition], target.designee)


def _wanted(shares: Sequence[Share]) -> list[dict[str, Any]]:
    return [
        {"broker": one.replica.broker, "start": span.start, "end": span.end}
        for one in shares
        for span in one.spans
    ]


def _told(one: RescuedPartition) -> dict[str, Any]:
    return {
        "result": SAVED if one.whole else NOT_SAVED,
        "reason": one.reason,
        "saved": [_place(saved) for saved in one.saved],
    }


def _place(saved: Saved) -> dict[str, Any]:
    return {
        "broker": saved.broker,
        "records": saved.records,
        "bytes": saved.bytes,
        "path": saved.path,
    }
