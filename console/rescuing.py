"""What commands share about rescue: whether, where to, how fast, and what is said of it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from breakglass.console.output import say
from breakglass.console.wiring import Connection
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice, default_folder

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.rescue import Rescuer
    from breakglass.services.recovery.rescue.results import RescuedPartition

__all__ = [
    "RescueChoice",
    "RescueStore",
    "WithoutRescue",
    "default_folder",
    "rescuer",
    "say_rescued",
]

SHOWN_PARTITIONS = 20
"""More partitions than these are reported by their sum."""

WithoutRescue = Annotated[
    bool,
    typer.Option("--without-rescue", help="Do not save the records that the elections cut off."),
]
RescueStore = Annotated[
    Path | None,
    typer.Option(
        "--store",
        "--rescue-to",
        "--to",
        metavar="DIR",
        help="Folder for the rescued records (default: your state folder).",
    ),
]


def rescuer(
    connection: Connection,
    cluster_id: str,
    stop: Callable[[], bool],
    bytes_per_second: int | None = None,
) -> Rescuer:
    """What rescues one cluster, at most *bytes_per_second*; None for the usual rate, 0 for any."""
    from breakglass.services.recovery.guarded import rescuing

    return rescuing.rescuer(connection.access(), cluster_id, stop, bytes_per_second)


def say_rescued(results: Sequence[RescuedPartition]) -> None:
    """Say on stderr what was saved and where; the elections that are not held say what was not."""
    saved = [(result, place) for result in results for place in result.saved]
    if len(saved) <= SHOWN_PARTITIONS:
        for partition, place in saved:
            what = f"{place.records:,} records of b{place.broker}"
            say(f"{partition.partition}  rescued {what}: {place.path}")
    else:
        records = sum(result.records for result in results)
        size = sum(place.bytes for _, place in saved)
        folder = saved[0][1].path.parents[2]
        partitions = len({partition.partition for partition, _ in saved})
        say(f"rescued {records:,} records of {partitions:,} partitions, {size:,} bytes: {folder}")
