"""What commands share about rescue: whether, where to, how fast, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from console.output import say
from console.wiring import Connection

if TYPE_CHECKING:
    from services.model import PartitionEvidence, TopicPartition
    from services.recovery.recover import Rescue
    from services.recovery.rescue.rescue import Rescuer
    from services.recovery.rescue.results import Rescued

SHOWN_PARTITIONS = 20
"""More partitions than these are told by their sum."""

WithoutRescue = Annotated[
    bool, typer.Option("--without-rescue", help="Do not save what the elections cut off.")
]
RescueTo = Annotated[
    Path | None,
    typer.Option("--rescue-to", metavar="DIR", help="Where to save it (your state folder)."),
]


@dataclass(frozen=True, slots=True)
class RescueChoice:
    """Whether and where an electing command saves what it cuts off; by default it does."""

    without: bool = False
    to: Path | None = None
    """None: the user's state folder."""


def rescue_for(
    connection: Connection,
    cluster_id: str,
    stop: Callable[[], bool],
    choice: RescueChoice,
    evidence: Mapping[TopicPartition, PartitionEvidence],
    told: list[Rescued],
) -> Rescue | None:
    """The rescue before elections agreed to on *evidence*; None when *choice* is without.

    Results are said on stderr and added to *told*.
    """
    if choice.without:
        return None
    from services.recovery.rescue.journalled import JournalledRescue

    def tell(results: Sequence[Rescued]) -> None:
        told.extend(results)
        say_rescued(results)

    to = choice.to or default_folder()
    return JournalledRescue(rescuer(connection, cluster_id, stop), evidence, to, tell)


def rescuer(
    connection: Connection,
    cluster_id: str,
    stop: Callable[[], bool],
    bytes_per_second: int | None = None,
) -> Rescuer:
    """What rescues one cluster, at most *bytes_per_second*; None for the usual rate, 0 for any."""
    from services.kafka.wire.rate_limit import RateLimit
    from services.recovery.rescue.rescue import BYTES_PER_SECOND, CLIENT_ID, Rescuer

    rate = BYTES_PER_SECOND if bytes_per_second is None else bytes_per_second or None
    return Rescuer(cluster_id, lambda: connection.reading(CLIENT_ID), RateLimit(rate), stop)


def default_folder() -> Path:
    """Where rescues go unless told otherwise."""
    from services.journal import state_folder

    return state_folder() / "rescue"


def say_rescued(results: Sequence[Rescued]) -> None:
    """Say on stderr what was saved and where; what was not is told by the held elections."""
    saved = [(one, place) for one in results for place in one.saved]
    if len(saved) <= SHOWN_PARTITIONS:
        for one, place in saved:
            what = f"{place.records:,} records of b{place.broker}"
            say(f"{one.partition}  rescued {what}: {place.path}")
    else:
        records = sum(one.records for one in results)
        size = sum(place.bytes for _, place in saved)
        folder = saved[0][1].path.parents[2]
        partitions = len({one.partition for one, _ in saved})
        say(f"rescued {records:,} records of {partitions:,} partitions, {size:,} bytes: {folder}")
