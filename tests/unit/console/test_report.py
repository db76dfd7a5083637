"""`breakglass report`: the ledger of a journal, as text, HTML and JSON."""

from pathlib import Path
from typing import Any

import pytest

from breakglass.services.guard.journal import Journal
from breakglass.services.recovery.remembered.store import ReplicaMemory
from breakglass.services.state_folder import state_folder
from tests.kit.program import Ended, breakglass
from tests.unit.recovery.ledger import incidents
from tests.unit.recovery.timeline import journals


def run(*arguments: object, code: int = 0) -> Ended:
    ended = breakglass("report", *arguments)
    assert ended.code == code, ended.err
    return ended


def document(*arguments: object, code: int = 0) -> Any:
    return run(*arguments, "--json", code=code).document


@pytest.fixture
def journal(user_folders: Path, tmp_path: Path) -> Path:
    path = incidents.incident(state_folder(), tmp_path)
    journals.group_reset(state_folder(), incidents.CLUSTER)
    return path


def test_the_newest_recovery_is_accounted_for_as_text_html_and_json(journal: Path) -> None:
    ReplicaMemory(incidents.CLUSTER).note_compared({("id", incidents.CARTS): 5})
    ended = run()
    assert "since this recovery, carts-1 came back" in ended.err
    assert (str(journal) in ended.err, ended.out.count("227") > 0) == (True, True)
    found = document(journal.stem)
    assert (found["schema"], found["adds_up"], found["held"]) == (1, True, 227)
    assert [one["topic"] for one in found["partitions"]] == ["ledger", "orders", "events"]
    text = run(journal, "--html").out
    assert (text[:15], text[-15:]) == ("<!doctype html>", "</body></html>\n")


def test_sums_that_do_not_add_up_end_with_1(user_folders: Path, tmp_path: Path) -> None:
    saved = incidents.rescued(tmp_path)
    with incidents.begun(state_folder(), incidents.FORKED) as journal:
        incidents.rescue(journal, saved, records=60)
        incidents.elect(journal, incidents.FORKED)
    assert document(code=1)["adds_up"] is False


def test_what_is_not_there_given_twice_or_of_another_plan_is_refused_and_hostile_text_inert(
    user_folders: Path, tmp_path: Path
) -> None:
    for words in ((), ("nothing",), ("--html", "--json")):
        run(*words, code=2)
    journals.hostile(state_folder())
    ended = run()
    assert all(line.isprintable() for line in (ended.out + ended.err).splitlines())
    other = tmp_path / "plan.json"
    other.write_text('{"partitions": [{"topic": "t", "partition": 0, "designatedLeader": 1}]}')
    run("--plan", other, code=2)
    for path in (state_folder() / "journal").glob("*/*.jsonl"):
        path.write_text("{}\n")
    assert "elected from here" not in run(code=2).err, "what was done is not known"


def test_of_several_clusters_the_one_that_is_meant_has_to_be_known(
    journal: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("BREAKGLASS_BOOTSTRAP_SERVER", "127.0.0.1:1")
    assert str(journal) in run().err, "there are journals of one cluster alone"
    with Journal.open("another", state_folder()) as other:
        other.consent("yes")
        other.finish("succeeded")
    for named in (True, False):
        if not named:
            monkeypatch.delenv("BREAKGLASS_BOOTSTRAP_SERVER")
        assert "journals of 2 clusters" in run(code=2).err
