"""The named failures, and the one place that lists them."""

from __future__ import annotations

from collections.abc import Sequence

from services.errors import LabError
from services.lab.scenarios.scenario import Scenario

SCENARIOS: tuple[Scenario, ...] = ()


def find_scenarios(names: Sequence[str]) -> tuple[Scenario, ...]:
    """The scenarios of these names, in the order given.

    Raises:
        LabError: there is none of that name.
    """
    known = {scenario.name: scenario for scenario in SCENARIOS}
    for name in names:
        if name not in known:
            raise LabError(f"There is no scenario {name}: choose of {', '.join(sorted(known))}.")
    return tuple(known[name] for name in names)
