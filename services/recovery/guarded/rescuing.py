"""The rescue that precedes elections, made from a choice."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from breakglass.services.guard.act import Tell
from breakglass.services.kafka.replicas.limits import RateLimit
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.acts.events import RescueEnded, RescueProgressed
from breakglass.services.recovery.execution.run import Rescue
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.recovery.rescue.rescue import (
    BYTES_PER_SECOND,
    CLIENT_ID,
    JournalledRescue,
    Rescuer,
)
from breakglass.services.session import ReadAccess

BEFORE_RETURN_BYTES = 10 * 1024 * 1024 * 1024
"""About how many bytes are saved before a return, where nothing else is asked for."""


def rescuer(
    access: ReadAccess,
    cluster_id: str,
    stop: Callable[[], bool],
    bytes_per_second: int | None = None,
) -> Rescuer:
    """What rescues one cluster, at most *bytes_per_second*; None for the usual rate, 0 for any.

    Nothing is connected to before there is something to be read.
    """
    rate = BYTES_PER_SECOND if bytes_per_second is None else bytes_per_second or None
    return Rescuer(cluster_id, lambda: access.reading(CLIENT_ID), RateLimit(rate), stop)


def rescue_for(
    choice: RescueChoice,
    rescuing: Rescuer,
    evidence: Mapping[TopicPartition, PartitionEvidence],
    tell: Tell,
) -> Rescue | None:
    """The rescue before elections agreed to on *evidence*; None when *choice* is without."""
    if choice.without:
        return None
    return JournalledRescue(
        replace(rescuing, progress=lambda progress: tell(RescueProgressed(progress))),
        evidence,
        choice.folder,
        lambda results: tell(RescueEnded(tuple(results))),
    )
