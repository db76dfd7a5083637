"""The list of scenarios."""

from __future__ import annotations

import pytest

from breakglass.services.errors import LabError
from breakglass.services.lab.scenarios import SCENARIOS, find_scenarios

NAMES = {
    "stale-replicas",
    "diverged",
    "empty-replica",
    "replaced-disk",
    "replaced-disk-unattended",
    "bad-unclean-before",
    "min-isr-2-one-alive",
    "fenced-designee",
    "hung-broker",
    "hung-designee",
    "hanging-transaction",
    "reassigning",
    "unregistered-broker",
    "failed-logdir",
    "compacted",
    "controller-down",
    "all-replicas-gone",
    "many",
}


def test_each_is_listed_once_with_one_line_about_it() -> None:
    names = [scenario.name for scenario in SCENARIOS]
    assert sorted(names) == sorted(NAMES)
    assert all(scenario.summary and "\n" not in scenario.summary for scenario in SCENARIOS)


def test_they_are_found_by_name_in_the_order_asked_for() -> None:
    found = find_scenarios(["many", "diverged"])
    assert [scenario.name for scenario in found] == ["many", "diverged"]


def test_an_unknown_name_is_answered_with_the_known_ones() -> None:
    with pytest.raises(LabError, match="no scenario earthquake: choose of all-replicas-gone"):
        find_scenarios(["many", "earthquake"])
