"""Defines a scenario by the lab it needs and its script, and plays several scenarios on one lab.

A script is a generator: it makes its topics, writes its records, and yields the next `LabDamage` to
the whole lab. `play` does each act once for all scripts, so that they share the lab and its waits.
Scenarios can share a lab if their acts come in the same order; a script may skip acts.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from breakglass.services.errors import LabError
from breakglass.services.lab.truth import Expectation

if TYPE_CHECKING:
    from breakglass.services.lab.cluster import Cluster
    from breakglass.services.lab.scenarios.stage import Stage


@dataclass(frozen=True, slots=True)
class LabDamage:
    """One piece of damage to a lab, done when this returns: it waits until it is observed."""

    name: str
    do: Callable[[Cluster], None]


Script = Generator[LabDamage, None, Sequence[Expectation]]


@dataclass(frozen=True, slots=True)
class Shape:
    """The lab a scenario needs; several are merged into the larger one."""

    brokers: int = 3
    controllers: int = 1
    log_dirs: int = 1
    overrides: Mapping[str, str] = field(default_factory=dict)
    """Kafka settings of every node."""
    prepare: Callable[[Cluster], None] | None = None
    """Called between planning and start: proxies and settings of single nodes."""


@dataclass(frozen=True, slots=True)
class Scenario:
    """A named failure."""

    name: str
    summary: str
    """One line, for the list."""
    script: Callable[[Stage], Script]
    shape: Shape = field(default_factory=Shape)
    course: tuple[LabDamage, ...] = ()
    """The acts that the script may yield, in their order; none: it plays alone."""
    options: Mapping[str, str] = field(default_factory=dict)
    """What may be set, with the defaults."""


def alone(script: Callable[[Stage], Sequence[Expectation]]) -> Callable[[Stage], Script]:
    """A script that does its own damage from beginning to end, sharing the lab with no other."""

    def generator(stage: Stage) -> Script:
        yield from ()
        return script(stage)

    return generator


def check_together(scenarios: Sequence[Scenario]) -> None:
    """Several scenarios play on one lab only when they share a course.

    Raises:
        LabError: these do not.
    """
    if not scenarios:
        raise LabError("No scenario was named: choose one or more of `lab scenario --list`.")
    if len(scenarios) > 1 and not (
        scenarios[0].course
        and all(scenario.course == scenarios[0].course for scenario in scenarios)
    ):
        names = ", ".join(scenario.name for scenario in scenarios)
        raise LabError(f"{names} damage a lab in different ways: give each a lab of its own.")


def merged_shape(shapes: Sequence[Shape]) -> Shape:
    """The smallest lab that fits all *shapes*.

    Raises:
        LabError: they want a setting to have different values.
    """
    overrides: dict[str, str] = {}
    for shape in shapes:
        for key, value in shape.overrides.items():
            if overrides.setdefault(key, value) != value:
                raise LabError(f"These scenarios disagree on {key}: give each a lab of its own.")
    return Shape(
        brokers=max(shape.brokers for shape in shapes),
        controllers=max(shape.controllers for shape in shapes),
        log_dirs=max(shape.log_dirs for shape in shapes),
        overrides=overrides,
    )


def drive(
    scripts: Sequence[Script], course: Sequence[LabDamage], do: Callable[[LabDamage], None]
) -> list[Sequence[Expectation]]:
    """Run all *scripts* to their ends, doing each act once for all that wait for it.

    Of the acts that are waited for, the first of the *course* is done next. Returns what each
    script returned.
    """
    parked: dict[int, LabDamage] = {}
    returned: dict[int, Sequence[Expectation]] = {}
    ready = list(range(len(scripts)))
    while True:
        for number in ready:
            try:
                parked[number] = next(scripts[number])
            except StopIteration as end:
                returned[number] = end.value
        if not parked:
            return [returned[number] for number in range(len(scripts))]
        act = min(
            parked.values(), key=lambda damage: course.index(damage) if damage in course else 0
        )
        do(act)
        ready = sorted(number for number, awaited in parked.items() if awaited == act)
        for number in ready:
            del parked[number]
