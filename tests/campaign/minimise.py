"""Making a failing incident smaller: drop what can be dropped while it still fails."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import TypeVar

from breakglass.services.lab.incidents.incident import LabIncident

T = TypeVar("T")


def minimised(
    incident: LabIncident, fails: Callable[[LabIncident], bool], *, most_trials: int = 40
) -> LabIncident:
    """The smallest incident that was found in *most_trials* trials and still *fails*.

    Steps, topics and circumstances are dropped one at a time, later ones first: what comes last
    needs what came before. It ends when nothing more can be dropped.
    """
    trials = 0
    smaller = True
    while smaller:
        smaller = False
        for candidate in _candidates(incident):
            if trials >= most_trials:
                return incident
            trials += 1
            if fails(candidate):
                incident, smaller = candidate, True
                break
    return incident


def _candidates(incident: LabIncident) -> Iterator[LabIncident]:
    for number in reversed(range(len(incident.steps))):
        yield replace(incident, steps=_without(incident.steps, number))
    if len(incident.topics) > 1:
        for number in reversed(range(len(incident.topics))):
            yield replace(incident, topics=_without(incident.topics, number))
    for topic, plan in enumerate(incident.topics):
        if len(plan.assignments) > 1:
            for row in reversed(range(len(plan.assignments))):
                rows = _without(plan.assignments, row)
                topics = list(incident.topics)
                topics[topic] = replace(plan, assignments=rows)
                yield replace(incident, topics=tuple(topics))
    for changes in ({"kill_at": None}, {"returning": None}, {"slow": ()}, {"controllers": 1}):
        simpler = replace(incident, **changes)
        if simpler != incident:
            yield simpler


def _without(values: tuple[T, ...], number: int) -> tuple[T, ...]:
    return values[:number] + values[number + 1 :]
