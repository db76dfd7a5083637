"""Scripts that share a lab meet at each act, which is done once for all of them."""

from __future__ import annotations

from dataclasses import replace

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.cluster import Cluster
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
    log.append(f"{name} begins")
    for act in acts:
        yield act
        log.append(f"{name} after {act.name}")
    return []


def unused(stage: Stage) -> Script:
    yield from ()
    return []


def scenario(name: str, course: tuple[LabDamage, ...] = COURSE) -> Scenario:
    return Scenario(name, "", unused, course=course)


def test_every_act_is_done_once_in_the_order_of_the_course() -> None:
    log: list[str] = []
    scripts = [
        script(log, "a", FIRST, THIRD),
        script(log, "b", SECOND, THIRD),
        script(log, "c", THIRD),
    ]
    assert drive(scripts, COURSE, lambda act: log.append(act.name)) == [[], [], []]
    assert log == [
        "a begins",
        "b begins",
        "c begins",
        "first",
        "a after first",
        "second",
        "b after second",
        "third",
        "a after third",
        "b after third",
        "c after third",
    ]


def test_an_act_that_nobody_waits_for_is_not_done() -> None:
    done: list[LabDamage] = []
    drive([script([], "a", FIRST), script([], "b", FIRST)], COURSE, done.append)
    assert done == [FIRST]


def test_a_script_alone_needs_no_course() -> None:
    done: list[LabDamage] = []
    drive([script([], "a", SECOND, FIRST)], (), done.append)
    assert done == [SECOND, FIRST]


def test_a_failed_act_ends_everything() -> None:
    def fail(act: LabDamage) -> None:
        raise LabError(act.name)

    with pytest.raises(LabError, match="first"):
        drive([script([], "a", FIRST)], COURSE, fail)


def test_scenarios_of_different_courses_do_not_share_a_lab() -> None:
    check_together([scenario("a"), scenario("b")])
    check_together([scenario("a", ())])
    for others in ([scenario("a"), scenario("b", ())], [scenario("a", ()), scenario("b", ())]):
        with pytest.raises(LabError, match="a, b damage a lab in different ways"):
            check_together(others)
    with pytest.raises(LabError, match="No scenario was named"):
        check_together([])


def test_the_lab_fits_the_most_demanding_of_them() -> None:
    small = Shape(overrides={"a": "1"})
    large = Shape(brokers=4, log_dirs=2, overrides={"b": "2"})
    assert merged_shape([small, large]) == Shape(
        brokers=4, log_dirs=2, overrides={"a": "1", "b": "2"}
    )


def test_settings_that_contradict_each_other_are_refused() -> None:
    shape = Shape(overrides={"a": "1"})
    with pytest.raises(LabError, match="disagree on a"):
        merged_shape([shape, replace(shape, overrides={"a": "2"})])
