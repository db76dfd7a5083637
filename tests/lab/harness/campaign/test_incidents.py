"""Whole incidents, recovered unattended: those that are kept, and a random one.

An incident is kept as a file under `kept` because it once failed, or because it shows the course
of a campaign; `python -m tests.campaign --incident FILE` plays one by itself.
"""

from pathlib import Path

import pytest

from breakglass.services.lab.incidents.generate import generate
from breakglass.services.lab.incidents.incident import LabIncident, from_json
from tests.campaign import quorum
from tests.campaign.trial import Outcome, recover_by_breakglass, recover_by_kafka

KEPT = sorted((Path(__file__).parent / "kept").glob("*.json"))
SEED = 1
"""`make campaign` plays as many as it is asked for."""


def kept(name: str) -> LabIncident:
    return from_json((Path(__file__).parent / "kept" / f"{name}.json").read_text("utf-8"))


def assert_passed(outcome: Outcome) -> None:
    assert not outcome.broken, outcome.broken
    assert [str(finding) for finding in outcome.findings] == []
    assert outcome.lost == 0


@pytest.mark.parametrize("path", KEPT, ids=lambda path: path.stem)
def test_a_kept_incident_is_recovered_without_a_loss(path: Path, tmp_path: Path) -> None:
    incident = from_json(path.read_text(encoding="utf-8"))
    outcome = recover_by_breakglass(incident, tmp_path)
    assert_passed(outcome)
    assert outcome.offline > 0
    if incident.kill_at is not None:
        assert outcome.resumed == 1
    if path.stem.startswith("diverged"):
        assert outcome.rescued == outcome.put_back == 20


def test_by_order_the_same_incident_loses_records(tmp_path: Path) -> None:
    outcome = recover_by_kafka(kept("diverged"), tmp_path)
    assert not outcome.broken, outcome.broken
    assert outcome.left == 0
    assert outcome.lost == 10


def test_a_random_incident_is_recovered_without_a_loss(tmp_path: Path) -> None:
    assert_passed(recover_by_breakglass(generate(SEED), tmp_path))


def test_a_random_loss_of_the_quorum_is_brought_back(tmp_path: Path) -> None:
    assert quorum.main(["--seed", "8", "--evidence", str(tmp_path)]) == 0
