"""What triage says of each scenario is the truth."""

import pytest

from breakglass.services.recovery.triage import Triage
from tests.lab.recover.incident.conftest import BESIDE, TOGETHER
from tests.lab.recover.truths import differences, differences_without
from tests.lab.scenarios.damaged import Damaged

pytestmark = pytest.mark.main

ALL = (*TOGETHER, *(scenario.name for scenario in BESIDE))


@pytest.mark.parametrize("scenario", ALL)
def test_triage_says_the_truth(lab: Damaged, found: Triage, scenario: str) -> None:
    assert differences(found, lab.truth, lab.truth.of(scenario)) == []


@pytest.mark.parametrize("scenario", ALL)
def test_triage_says_what_is_left_once_the_last_leaders_are_gone(
    lab: Damaged, found_without: Triage, scenario: str
) -> None:
    assert differences_without(found_without, lab.truth.of(scenario)) == []


def test_nothing_else_is_offline(lab: Damaged, found: Triage) -> None:
    assert {assessment.partition for assessment in found.assessments} == {
        partition.partition for partition in lab.truth.partitions
    }
