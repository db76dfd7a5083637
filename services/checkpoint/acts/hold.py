"""Suspends the retention of topics for a checkpoint that a server takes.

`acts.take.ReleaseRetention` ends what this act begins.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from breakglass.services import patience
from breakglass.services.checkpoint.kafka.holding import RetentionHolder
from breakglass.services.guard.act import Act, ActStep, Ending, Front, Frozen, Means, announced
from breakglass.services.guard.steps import HOLD_RETENTION
from breakglass.services.kafka.wire.deadline import Deadline


@dataclass(frozen=True, slots=True)
class HoldRetention(Act[None]):
    """Keep all records of *topics* in the name of *request*, until that is released."""

    doing: ClassVar[str] = "suspending retention"
    topics: tuple[str, ...]
    control_topic: str
    request: str

    def freeze(self, front: Front) -> Frozen[None]:
        with front.reading() as client:
            cluster_id = client.describe(Deadline.after(patience.COMMAND)).cluster_id
        evidence = (("Request", self.request), ("Topics", ", ".join(sorted(self.topics))))
        return Frozen(cluster_id, (), evidence, tuple(sorted(self.topics)))

    def carry_out(self, front: Front, means: Means, frozen: Frozen[None]) -> Ending:
        """Change the settings; return when the brokers have confirmed them."""
        topics = sorted(self.topics)
        with (
            front.reading() as client,
            means.cluster.markers(frozen.cluster_id, holding=True) as markers,
        ):
            client.describe(Deadline.after(patience.COMMAND))
            holder = RetentionHolder(client, markers, self.control_topic, self.request)
            details = {"request_id": self.request, "topics": topics}
            with announced(means.journal, HOLD_RETENTION, {}, front.tell, **details):
                holder.hold(topics)
        front.tell(ActStep(f"retention is suspended: {', '.join(topics)}"))
        return Ending()
