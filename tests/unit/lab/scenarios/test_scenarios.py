"""The list of scenarios, and which of them share a lab."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.scenarios import SCENARIOS, find_scenarios
from breakglass.services.lab.scenarios.scenario import (
    Scenario,
    Script,
    Shape,
    check_together,
    merged_shape,
)
from breakglass.services.lab.scenarios.stage import Stage


def unused(stage: Stage) -> Script:
    yield from ()
    return []


def test_scenarios_are_found_by_name_in_the_order_asked_for() -> None:
    found = find_scenarios(["many", "diverged"])
    assert [scenario.name for scenario in found] == ["many", "diverged"]
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    with pytest.raises(LabError, match="all-replicas-gone"):
        find_scenarios(["many", "earthquake"])


def test_only_scenarios_of_one_course_without_contradictions_share_a_lab() -> None:
    first, second = (Scenario(name, "", unused) for name in "ab")
    check_together([first])
    for others in ([first, second], []):
        with pytest.raises(LabError):
            check_together(others)
    small, large = Shape(overrides={"a": "1"}), Shape(brokers=4, overrides={"b": "2"})
    assert merged_shape([small, large]) == Shape(brokers=4, overrides={"a": "1", "b": "2"})
    with pytest.raises(LabError):
        merged_shape([small, replace(small, overrides={"a": "2"})])
