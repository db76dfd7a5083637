"""Plans on disk: round trips, digests, and every way a file can be wrong."""

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given

from breakglass.services.errors import MalformedInput
from breakglass.services.model import PartitionEvidence, TopicPartition
from breakglass.services.recovery.judgement.verdict import assess
from breakglass.services.recovery.plan.document import SCHEMA, Plan
from breakglass.services.recovery.plan.edit import approve, exclude, set_leader, voided, with_notes
from breakglass.services.recovery.plan.file import fingerprint, parse_plan, write_plan
from breakglass.services.recovery.plan.make import as_recommended, make_plan
from breakglass.services.recovery.plan.partition_file import Election, digest_of, read_elections
from tests.kit.plans import render_plan
from tests.unit.recovery.partitions import partitions
from tests.unit.recovery.plans import CLUSTER, FORK, GONE, LOSS, MADE_AT_MS, SAFE, planned


def rewritten(plan: Plan, change: Any) -> str:
    """The text of *plan* after *change* had its way with the document."""
    document = json.loads(render_plan(plan))
    change(document)
    return json.dumps(document)


@given(partitions())
def test_any_evidence_survives_the_way_to_text_and_back(evidence: PartitionEvidence) -> None:
    plan = make_plan([assess(evidence, GONE)], CLUSTER, MADE_AT_MS)
    read = parse_plan(render_plan(plan), "plan.json")
    assert read.records[evidence.partition].evidence == evidence
    assert read.digest == plan.digest


def test_a_plan_of_before_contents_were_read_has_the_digest_that_it_had() -> None:
    def of_before(document: Any) -> None:
        for record in document["breakglass"]["records"]:
            for replica in record["evidence"]["replicas"]:
                del replica["contents"], replica["last_heard"]

    plan = planned(SAFE, LOSS)
    read = parse_plan(rewritten(plan, of_before), "plan.json")
    assert read.digest == plan.digest
    assert not read.altered
    for record in read.records.values():
        for replica in record.facts()["evidence"]["replicas"]:
            assert not {"contents", "last_heard"} & set(replica)


def test_the_document_is_the_one_of_the_kip_with_one_more_key(tmp_path: Path) -> None:
    document = json.loads(render_plan(planned(SAFE, LOSS)))
    assert list(document) == ["partitions", "breakglass"]
    assert document["partitions"] == [
        {"topic": "orders", "partition": 1, "designatedLeader": 2},
        {"topic": "orders", "partition": 3, "designatedLeader": 1},
    ]
    assert document["breakglass"]["schema"] == SCHEMA
    path = tmp_path / "plan.json"
    written = write_plan(planned(SAFE, LOSS), path)
    assert written == fingerprint([path.read_text(encoding="utf-8")])
    assert read_elections(path)[0] == Election(TopicPartition("orders", 1), 2)
    assert document["breakglass"]["cluster_id"] == CLUSTER


def test_the_digest_does_not_depend_on_time_notes_approvals_or_what_is_left_out() -> None:
    assessments = [assess(evidence, GONE) for evidence in (SAFE, LOSS)]
    later = make_plan(assessments, CLUSTER, MADE_AT_MS + 9, notes=("for the night shift",))
    digests = {planned(SAFE, LOSS).digest, planned(SAFE, LOSS, FORK).digest, later.digest}
    assert len(digests) == 1


def _record(document: Any) -> Any:
    return document["breakglass"]["records"][0]


def _leader(document: Any) -> None:
    document["partitions"][0]["designatedLeader"] = 1


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(_leader, id="leader"),
        pytest.param(lambda it: it["breakglass"].update(cluster_id="another"), id="cluster"),
        pytest.param(
            lambda it: _record(it)["evidence"]["replicas"][1].update(log_end=101), id="log"
        ),
        pytest.param(lambda it: _record(it)["losses"][0].update(total=0), id="loss"),
        pytest.param(lambda it: it["partitions"].pop(), id="fewer"),
    ],
)
def test_any_change_of_leaders_cluster_or_evidence_changes_the_digest(change: Any) -> None:
    plan = planned(SAFE, LOSS)
    read = parse_plan(rewritten(plan, change), "plan.json")
    assert read.digest != plan.digest
    assert read.altered
    assert not set_leader(plan, SAFE.partition, 1).altered
    assert not exclude(parse_plan(render_plan(plan), "plan.json"), SAFE.partition).altered


def _left_out(document: Any) -> None:
    (record,) = [it for it in document["breakglass"]["records"] if it["left_out"]]
    record["left_out"] = "its disk is shredded"


@pytest.mark.parametrize(
    "change",
    [
        pytest.param(lambda it: it["breakglass"].update(notes=["all approved"]), id="note"),
        pytest.param(lambda it: it["breakglass"]["notes"].append("all approved"), id="another"),
        pytest.param(lambda it: it["breakglass"].update(made_at_ms=MADE_AT_MS - 9), id="made"),
        pytest.param(
            lambda it: _record(it)["evidence"]["replicas"][1].update(observed_at_ms=1), id="read"
        ),
        pytest.param(_left_out, id="left out"),
        pytest.param(_leader, id="leader"),
    ],
)
def test_s55_an_edit_of_anything_that_a_person_reads_voids_the_approvals(change: Any) -> None:
    plan = approve(with_notes(planned(SAFE, LOSS, FORK), ["ask ada"]), "ada", 5)
    kept = parse_plan(render_plan(plan), "plan.json")
    assert (kept.altered, [approval.by for approval in kept.approvals]) == (False, ["ada"])
    read = parse_plan(rewritten(plan, change), "plan.json")
    assert (read.altered, read.approvals, voided(read)) == (True, (), ("ada",))


def test_s55_of_a_plan_of_an_earlier_version_no_approval_counts_and_nothing_is_altered() -> None:
    plan = approve(planned(SAFE, LOSS), "ada", 5)

    def earlier(document: Any) -> None:
        del document["breakglass"]["seal"]
        del document["breakglass"]["approvals"][0]["seal"]

    read = parse_plan(rewritten(plan, earlier), "plan.json")
    assert (read.digest, read.altered, read.approvals) == (plan.digest, False, ())
    assert [approval.by for approval in approve(read, "Ada", 6).approvals] == ["Ada"]


EPOCH = r"breakglass\.records\[0\]\.evidence\.state\.leader_epoch"
FAULTS: dict[str, tuple[Callable[[Any], Any], str]] = {
    "not assigned": (lambda it: it["partitions"][0].update(designatedLeader=7), "entry 1"),
    "no evidence": (lambda it: it["breakglass"].update(records=[]), "entry 1"),
    "recorded twice": (lambda it: it["breakglass"].update(records=2 * [_record(it)]), "records"),
    "no schema": (lambda it: it["breakglass"].pop("schema"), "schema"),
    "a list": (lambda it: it.update(breakglass=["not", "ours"]), "schema"),
    "no number": (lambda it: _record(it)["evidence"]["state"].update(leader_epoch="nine"), EPOCH),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_of_a_plan_is_named_in_one_sentence(fault: str) -> None:
    change, place = FAULTS[fault]
    with pytest.raises(MalformedInput, match=place) as refused:
        parse_plan(rewritten(planned(SAFE), change), "plan.json")
    assert str(refused.value).endswith(".")
    assert "\n" not in str(refused.value)


@given(partitions())
def test_the_digest_is_that_of_the_whole_document_in_canonical_json(
    evidence: PartitionEvidence,
) -> None:
    """However it is put together from what was worked out before."""
    plan = make_plan([assess(evidence, GONE)], CLUSTER, MADE_AT_MS)
    edited = exclude(plan, evidence.partition, 'hostile "\x1b')
    for one in (plan, as_recommended(edited)):
        elections = [
            [entry.topic, entry.number, entry.leader, one.records[entry.partition].facts()]
            for entry in one.entries
        ]
        assert one.digest == digest_of({"cluster_id": CLUSTER, "elections": elections})


def test_a_plan_is_read_line_by_line_and_the_same_as_a_whole() -> None:
    plan = planned(SAFE, LOSS, FORK)
    text = render_plan(plan)
    document = json.loads(text)
    assert parse_plan(json.dumps(document, indent=1), "plan.json") == parse_plan(text, "plan.json")
    document["partitions"].reverse()
    turned = parse_plan(json.dumps(document, indent=7, sort_keys=True), "plan.json")
    assert (turned.digest, turned.altered) == (plan.digest, False)


@pytest.mark.parametrize(
    ("before", "after", "wrong"),
    [
        ('"verdict": "SAFE"', '"verdict": "SAFE", "verdict": "LOSS"', "twice"),
        ('"verdict": "SAFE"', '"verdict": 7', "breakglass.records[0].verdict"),
        ('"verdict": "SAFE"', '"verdict": "SAFE"]', "line"),
    ],
)
def test_what_is_wrong_with_a_line_is_said_as_of_a_whole(
    before: str, after: str, wrong: str
) -> None:
    text = render_plan(planned(SAFE, LOSS))
    assert before in text
    with pytest.raises(MalformedInput, match=re.escape(wrong)):
        parse_plan(text.replace(before, after, 1), "plan.json")
