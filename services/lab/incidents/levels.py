"""Which random incident a drill raises: by its level and its seed alone. Pure.

A drill is played by a person with the commands of Breakglass, so what only other tools can repair
is left out: reassignments under way, and brokers that are cut off from their controllers. So are
failed log directories, beside which a broker has to be stopped that others need, and what belongs
to the campaign: commands that are killed, brokers that return unasked, slow links.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace
from enum import StrEnum
from random import Random

from breakglass.services.lab.incidents.generate import generate
from breakglass.services.lab.incidents.incident import Happening, LabIncident

SEEDS = 10**9
OUT = (
    *(Happening.KILL, Happening.STOP, Happening.STRAND),
    *(Happening.LAST, Happening.HANG, Happening.CUT),
)
IN = (Happening.RETURN, Happening.RETURN_EMPTY)


class DrillLevel(StrEnum):
    """How much has happened to the cluster."""

    EASY = "easy"
    """One topic, and brokers that died one after another."""
    MEDIUM = "medium"
    """Two topics at most; brokers return, some with new disks, and unclean elections were held."""
    HARD = "hard"
    """Everything: hung brokers, a lost controller, transactions, compaction, up to six brokers."""


EASY = frozenset(
    {Happening.WRITE, Happening.KILL, Happening.STOP, Happening.STRAND, Happening.LAST}
)
MEDIUM = EASY | {Happening.RETURN, Happening.UNCLEAN, Happening.RETURN_EMPTY, Happening.COMMIT}
HARD = MEDIUM | {Happening.TRANSACT, Happening.HANG, Happening.CONTROLLER}


@dataclass(frozen=True, slots=True)
class _Bounds:
    """What an incident of a level may have, and what it must have some of."""

    happenings: frozenset[Happening]
    brokers: int
    topics: int
    some_of: frozenset[Happening]
    compacted: bool


BOUNDS = {
    DrillLevel.EASY: _Bounds(EASY, 4, 1, frozenset({Happening.LAST}), compacted=False),
    DrillLevel.MEDIUM: _Bounds(MEDIUM, 5, 2, MEDIUM - EASY, compacted=False),
    DrillLevel.HARD: _Bounds(HARD, 6, 3, HARD - MEDIUM, compacted=True),
}


def drill_incidents(seed: int, level: DrillLevel) -> Iterator[LabIncident]:
    """The incidents of *seed*, without end; a later one is for where nothing is left offline."""
    random = Random(f"breakglass drill {level} {seed}")
    while True:
        incident = as_drill(generate(random.randrange(SEEDS)))
        if fits(incident, BOUNDS[level]):
            yield replace(incident, seed=seed)


def as_drill(incident: LabIncident) -> LabIncident:
    """*incident* without what happens in the middle of the recovery."""
    return replace(incident, kill_at=None, returning=None, slow=())


def fits(incident: LabIncident, bounds: _Bounds) -> bool:
    """Whether *incident* is within *bounds*."""
    happened = {step.act for step in incident.steps}
    return (
        happened <= bounds.happenings
        and bool(happened & bounds.some_of)
        and incident.brokers <= bounds.brokers
        and len(incident.topics) <= bounds.topics
        and any(len(topic.assignments[0]) > 1 for topic in incident.topics)
        and len(_there_at_the_end(incident)) > 1
        and (bounds.compacted or not any(topic.compacted for topic in incident.topics))
    )


def _there_at_the_end(incident: LabIncident) -> set[int]:
    """Brokers that answer when the player comes, or can be brought back: one alone is no choice."""
    there = set(range(1, incident.brokers + 1))
    for step in incident.steps:
        if step.act in OUT:
            there = (there - set(step.brokers)) | set(step.back)
        elif step.act in IN:
            there |= set(step.brokers)
    return there | set(incident.curable)
