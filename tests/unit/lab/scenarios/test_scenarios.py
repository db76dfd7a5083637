"""The list of scenarios, and which of them share a lab: each act is done once for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.scenarios import SCENARIOS, find_scenarios
from breakglass.services.lab.scenarios.scenario import (
    LabDamage,
    Scenario,
    Script,
    Shape,
    check_together,
    drive,
    merged_shape,
)
from breakglass.services.lab.scenarios.stage import Stage


def nothing(cluster: Cluster) -> None:
    """The act that `drive` is given is never done by itself."""


FIRST, SECOND, THIRD = (LabDamage(name, nothing) for name in ("first", "second", "third"))
COURSE = (FIRST, SECOND, THIRD)


def script(log: list[str], name: str, *acts: LabDamage) -> Script:
    for act in acts:
        yield act
        log.append(f"{name} after {act.name}")
    return []


def unused(stage: Stage) -> Script:
    yield from ()
    return []


def scenario(name: str, course: tuple[LabDamage, ...] = COURSE) -> Scenario:
    return Scenario(name, "", unused, course=course)


def test_scenarios_are_found_by_name_in_the_order_asked_for() -> None:
    found = find_scenarios(["many", "diverged"])
    assert [scenario.name for scenario in found] == ["many", "diverged"]
    assert len({scenario.name for scenario in SCENARIOS}) == len(SCENARIOS)
    with pytest.raises(LabError, match="all-replicas-gone"):
        find_scenarios(["many", "earthquake"])


def test_every_act_that_a_script_waits_for_is_done_once_in_the_order_of_the_course() -> None:
    log: list[str] = []
    scripts = [script(log, "a", FIRST, THIRD), script(log, "b", THIRD)]
    assert drive(scripts, COURSE, lambda act: log.append(act.name)) == [[], []]
    assert log == ["first", "a after first", "third", "a after third", "b after third"]


def test_scenarios_of_different_courses_do_not_share_a_lab() -> None:
    check_together([scenario("a"), scenario("b")])
    check_together([scenario("a", ())])
    for others in ([scenario("a"), scenario("b", ())], [scenario("a", ()), scenario("b", ())], []):
        with pytest.raises(LabError):
            check_together(others)


def test_the_lab_fits_the_most_demanding_of_them_unless_settings_contradict_each_other() -> None:
    small = Shape(overrides={"a": "1"})
    large = Shape(brokers=4, log_dirs=2, overrides={"b": "2"})
    assert merged_shape([small, large]) == Shape(
        brokers=4, log_dirs=2, overrides={"a": "1", "b": "2"}
    )
    with pytest.raises(LabError):
        merged_shape([small, replace(small, overrides={"a": "2"})])
