"""`breakglass recover report`: the ledger of a journal, as text, HTML and JSON."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner, Result

from breakglass.console.recover import app
from breakglass.services.errors import UsageError
from breakglass.services.guard.journal import Journal
from breakglass.services.state_folder import state_folder
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.timeline import journals


def run(*arguments: object, exit_code: int = 0) -> Result:
    result = CliRunner().invoke(app, ["report", *map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == exit_code, result.output
    return result


def document(*arguments: object) -> Any:
    return json.loads(run(*arguments, "--json").stdout)


@pytest.fixture
def journal(user_folders: Path, tmp_path: Path) -> Path:
    """The journal of an incident in the state folder, and a newer one that is of no recovery."""
    path = incidents.incident(state_folder(), tmp_path)
    journals.group_reset(state_folder(), incidents.CLUSTER)
    return path


def test_the_newest_recovery_is_accounted_for(journal: Path) -> None:
    result = run()
    assert f"journal: {journal}" in result.stderr
    lines = result.stdout.splitlines()
    assert lines[:2] == [
        "Ledger of an incident: recovery of 3 partitions, partly failed",
        "The sums add up: 227 records of readable replicas, each with its fate.",
    ]
    (row,) = (line.split() for line in lines if line.startswith("rescued "))
    assert row[:5] == ["rescued", "50", "0", "50", "0"]


def test_the_document_has_a_schema_and_the_sums(journal: Path) -> None:
    found = document(journal.stem)
    assert (found["schema"], found["adds_up"], found["held"]) == (1, True, 227)
    assert [one["topic"] for one in found["partitions"]] == ["ledger", "orders", "events"]


def test_the_html_is_one_document(journal: Path) -> None:
    text = run(journal, "--html").stdout
    assert text.startswith("<!doctype html>")
    assert text.endswith("</body></html>\n")


def test_sums_that_do_not_add_up_end_with_1(user_folders: Path, tmp_path: Path) -> None:
    saved = incidents.rescued(tmp_path)
    with incidents.begun(state_folder(), incidents.FORKED) as journal:
        incidents.rescue(journal, saved, records=60)
        incidents.elect(journal, incidents.FORKED)
    result = run(exit_code=1)
    assert "The sums do not add up for 1 partition" in result.stdout


def test_a_restore_from_elsewhere_can_be_named(journal: Path, tmp_path: Path) -> None:
    saved = tmp_path / "rescue" / f"cluster-{incidents.CLUSTER}" / "20231114T221320.000000Z"
    elsewhere = incidents.put_back(tmp_path / "theirs", saved / "b2" / "ledger")
    assert document(journal)["sums"]["put back"]["records"] == 0
    assert document(journal, "--put-back", elsewhere)["sums"]["put back"]["records"] == 10


def test_hostile_texts_are_inert(user_folders: Path, tmp_path: Path) -> None:
    journals.hostile(state_folder())
    result = run()
    assert all(line.isprintable() for line in result.output.splitlines())


def test_what_is_not_there_is_said(user_folders: Path) -> None:
    with pytest.raises(UsageError, match="no journal of a recovery"):
        run()
    with pytest.raises(UsageError, match="is no journal"):
        run("nothing")
    with pytest.raises(UsageError, match="choose one"):
        run("--html", "--json")


def test_another_plan_than_the_journals_is_refused(journal: Path, tmp_path: Path) -> None:
    other = tmp_path / "plan.json"
    other.write_text('{"partitions": [{"topic": "t", "partition": 0, "designatedLeader": 1}]}')
    with pytest.raises(UsageError, match="another digest"):
        run(journal, "--plan", other)


def test_a_journal_under_way_can_be_looked_at(user_folders: Path) -> None:
    with incidents.begun(state_folder(), incidents.SAFE) as journal:
        found = document(journal.path)
    assert isinstance(journal, Journal)
    assert (found["result"], found["sums"]["waiting"]["records"]) == ("running", 40)
