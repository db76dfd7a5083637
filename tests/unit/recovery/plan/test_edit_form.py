"""A plan edited as a text: what comes back, and where it is wrong."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.model import TopicPartition
from breakglass.services.recovery.judgement.assessment import refusal
from breakglass.services.recovery.plan.document import ChosenBy, Plan
from breakglass.services.recovery.plan.edit import (
    BY_HAND,
    NOTES,
    exclude,
    notes_of,
    set_leader,
    with_notes,
)
from breakglass.services.recovery.plan.edit_form import (
    LARGEST_FORM,
    Path,
    Problem,
    places,
    read_back,
    render_form,
)
from tests.kit.plans import add_note
from tests.unit.recovery.plans import (
    EVERY_KIND,
    FORK,
    LOSS,
    SAFE,
    planned,
)

PLAN = add_note(planned(SAFE, LOSS, FORK), "ask ada")


def edited(text: str, plan: Plan = PLAN) -> Plan:
    read = read_back(text, plan)
    assert isinstance(read, Plan), read
    return read


def wrong(text: str, plan: Plan = PLAN) -> list[str]:
    read = read_back(text, plan)
    assert not isinstance(read, Plan)
    return list(map(str, read))


def form(change: Any = None, plan: Plan = PLAN) -> str:
    text = render_form(plan)
    if change is None:
        return text
    document = json.loads(text)
    change(document)
    return json.dumps(document, indent=1)


def test_leaders_reasons_and_notes_are_edited_and_lines_deleted_or_moved() -> None:
    after = edited(form(lambda it: it["partitions"][1].update(designatedLeader=2)))
    assert after.leaders == {SAFE.partition: 2, LOSS.partition: 2}
    assert after.records[LOSS.partition].chosen_by is ChosenBy.HAND
    assert after.records[SAFE.partition] is PLAN.records[SAFE.partition]

    def change(document: Any) -> None:
        document["partitions"].pop(0)
        lost = document["partitions"].pop(0)
        fork = document["leftOut"].pop(0)
        document["partitions"].append({**fork, "designatedLeader": 1})
        document["leftOut"].append({**lost, "why": "its owner decides"})
        document["notes"] = ["ask grace", "[bold]\x1b[31m"]

    after = edited(form(change))
    assert dict(after.leaders) == {FORK.partition: 1}
    reasons = [after.records[one.partition].left_out for one in (SAFE, LOSS, FORK)]
    assert reasons == [BY_HAND, "its owner decides", ""]
    assert notes_of(after) == ("ask grace", "[bold]\x1b[31m")


@given(st.data())
def test_any_valid_edit_comes_back_as_it_was_meant(data: st.DataObject) -> None:
    plan = planned(*EVERY_KIND)
    wanted: dict[TopicPartition, int | None] = {}
    for partition, record in plan.records.items():
        able = [number for number in record.ranking if not refusal(record.evidence, number)]
        wanted[partition] = data.draw(st.sampled_from([None, *able]))
    notes = data.draw(st.lists(st.text("ab[]\x1b\u202e\né", min_size=1).filter(str.strip)))
    expected = plan
    for partition, leader in wanted.items():
        if leader is None and partition in plan.leaders:
            expected = exclude(expected, partition)
        elif leader is not None and leader != plan.leaders.get(partition):
            expected = set_leader(expected, partition, leader)
    after = edited(render_form(with_notes(expected, notes)).replace(
        expected.spoken_digest, plan.spoken_digest), plan)  # fmt: skip
    assert after.leaders == expected.leaders
    assert after.digest == expected.digest
    assert notes_of(after) == tuple(note.strip() for note in notes)


@given(st.text(max_size=60), st.integers(0, 900), st.integers(0, 30))
def test_no_text_makes_it_stumble(scrap: str, at: int, cut: int) -> None:
    text = form()
    read = read_back(text[:at] + scrap + text[at + cut :], PLAN)
    assert isinstance(read, Plan) or all(isinstance(problem, Problem) for problem in read)


def _leader(value: object) -> Any:
    return lambda it: it["partitions"][1].update(designatedLeader=value)


FAULTS: dict[str, tuple[Any, list[str]]] = {
    "fenced": (_leader(3), ["fenced"]),
    "not assigned": (_leader(7), ["assignment 2, 1, 3"]),
    "a text": (_leader("2"), ["whole number"]),
    "a bool": (_leader(True), ["whole number"]),
    "no leader": (lambda it: it["partitions"][1].pop("designatedLeader"), ["missing"]),
    "unknown partition": (lambda it: it["partitions"][0].update(topic="carts"), ["carts-1"]),
    "no object": (lambda it: it["partitions"].append("orders-3"), ["an object"]),
    "no list": (lambda it: it.update(leftOut={}), ['"leftOut"']),
    "one note": (lambda it: it.update(notes="x"), ['"notes"']),
    "no notes": (lambda it: it.update(notes=["x", 5, " "]), ["text", "no words"]),
    "too many notes": (lambda it: it.update(notes=["x"] * (NOTES + 1)), ["101"]),
    "long reason": (lambda it: it["leftOut"][0].update(why="x" * 1001), ["1,001"]),
    "no partitions": (lambda it: it.pop("partitions"), ['"partitions"']),
    "another plan": (lambda it: it.update(digest="lusab-babad-gutih"), [PLAN.spoken_digest]),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_each_fault_is_named_with_its_line(fault: str) -> None:
    change, words = FAULTS[fault]
    text = form(change)
    found = read_back(text, PLAN)
    assert not isinstance(found, Plan)
    for problem, word in zip(found, words, strict=True):
        assert word in problem.what
        line = text.splitlines()[problem.line - 1]
        assert line[problem.column - 1 :].strip(), "it points at something"


def test_all_faults_are_told_at_once_in_the_order_of_the_text() -> None:
    def change(document: Any) -> None:
        document["partitions"][0]["designatedLeader"] = 9
        document["partitions"][1]["designatedLeader"] = None
        document["notes"] = [""]

    assert [text.split(": ")[1][:12] for text in wrong(form(change))] == [
        "a note has n", "b9 cannot le", '"designatedL',
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "line 1, column 1: this is not JSON: expecting value"),
        ('{"partitions": [\n {"topic" "a"}]}', "line 2, column 11: this is not JSON: expecting"),
        ("[]", 'line 1, column 1: the text must be an object {"partitions": [...]}'),
        (
            '{"partitions": [],\n "partitions": []}',
            'line 2, column 2: the key "partitions" stands twice in one object',
        ),
        ('{"partitions": [],\n "a": NaN}', "line 2, column 7: NaN is not a number of JSON"),
        ('{"a": "NaN",\n "b": -Infinity}', "line 2, column 7: -Infinity is not a number"),
        ('{"a": 1, "a": 2,\n b}', "line 2, column 2: this is not JSON"),
        ('{"a":\n' + "9" * 5000 + "}", "line 2, column 1: a number in it has too many digits"),
        ("[" * 200_000, "line 1, column 1: its values are nested without end"),
        ("x" * (LARGEST_FORM + 1), "line 1, column 1: the text has 64,000,001 characters"),
    ],
    ids=["empty", "syntax", "array", "twice", "nan", "infinity", "both", "digits", "deep", "large"],
)
def test_what_is_not_json_is_pointed_at(text: str, said: str) -> None:
    assert wrong(text)[0].startswith(said)


def test_hostile_notes_are_inert_in_the_form() -> None:
    text = form(plan=add_note(planned(SAFE), "\x1b]0;gone\x07 \u202e né 日本 \U000e0001"))
    assert "né 日本" in text
    assert all(one.isprintable() for one in text.replace("\n", ""))


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


def paths_of(value: Any, path: Path = ()) -> list[Path]:
    members: list[tuple[str | int, Any]] = []
    if isinstance(value, dict):
        members = list(value.items())
    elif isinstance(value, list):
        members = list(enumerate(value))
    return [path, *(pair for key, inner in members for pair in paths_of(inner, (*path, key)))]


@given(values, st.sampled_from([None, 0, 3]), st.booleans())
def test_every_value_of_any_text_is_placed(value: Any, indent: int | None, escaped: bool) -> None:
    text = json.dumps(value, indent=indent, ensure_ascii=escaped)
    found = list(places(text))
    assert [path for path, _ in found] == paths_of(value)
    for path, index in found:
        if path and isinstance(path[-1], str):
            assert json.JSONDecoder().raw_decode(text, index)[0] == path[-1]
