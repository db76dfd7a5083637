"""Several scenarios on one lab: which may share it, its shape, and driving their scripts."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from breakglass.services.errors import LabError
from breakglass.services.lab.scenarios.scenario import LabDamage, Scenario, Script, Shape
from breakglass.services.lab.truth import Expectation


def check_together(scenarios: Sequence[Scenario]) -> None:
    """Several scenarios play on one lab only when they share a course.

    Raises:
        LabError: these do not.
    """
    if not scenarios:
        raise LabError("No scenario was named: choose one or more of `lab scenario --list`.")
    if len(scenarios) > 1 and not (
        scenarios[0].course and all(one.course == scenarios[0].course for one in scenarios)
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
            _advance(number, scripts[number], parked, returned)
        if not parked:
            return [returned[number] for number in range(len(scripts))]
        act = min(parked.values(), key=lambda one: course.index(one) if one in course else 0)
        do(act)
        ready = sorted(number for number, awaited in parked.items() if awaited == act)
        for number in ready:
            del parked[number]


def _advance(
    number: int,
    script: Script,
    parked: dict[int, LabDamage],
    returned: dict[int, Sequence[Expectation]],
) -> None:
    try:
        parked[number] = next(script)
    except StopIteration as end:
        returned[number] = end.value
