"""The console's watch says of real brokers what triage says."""

import pytest

from breakglass.services.incident.incident import Incident
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import Judged
from breakglass.services.recovery.triage import Triage
from tests.lab.recover.incident.conftest import CARTS

pytestmark = pytest.mark.main


def test_every_partition_is_judged_as_triage_judges_it(found: Triage, incident: Incident) -> None:
    conclusions = {assessment.partition: Judged.of(assessment) for assessment in found.assessments}
    assert {row.partition: row.judged for row in incident.rows} == conclusions
    assert incident.summary.headline == Incident.of(found).summary.headline


def test_evidence_that_was_frozen_says_the_same(found: Triage, incident: Incident) -> None:
    for assessment in found.assessments:
        thawed = incident.assessment(assessment.partition)
        assert thawed is not None
        assert thawed.reasons == assessment.reasons


def test_r02_time_bombs_are_to_be_stopped_now(incident: Incident) -> None:
    bombs = [row for row in incident.rows if str(row.action) == "stop b4 NOW"]
    assert [bomb.partition for bomb in bombs] == list(CARTS)
    assert incident.summary.alarm == "FIRST stop b4 NOW: BOMB on 3."


def test_who_is_silent_is_named(incident: Incident) -> None:
    assert list(incident.silent) == [3]
    assert incident.complete
    assert incident.row(TopicPartition("no-such-topic", 0)) is None
