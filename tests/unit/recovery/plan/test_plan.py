"""Plans on paper: digests, rows, notes, lists of partitions, what a plan was before."""

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.errors import MalformedInput, UsageError
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.plan.document import Approval, Plan
from breakglass.services.recovery.plan.draft import PlanHistory
from breakglass.services.recovery.plan.edit import (
    approve,
    exclude,
    least_loss,
    never,
    set_leader,
)
from breakglass.services.recovery.plan.make import (
    as_recommended,
)
from breakglass.services.recovery.plan.partition_file import (
    Election,
    elections_of,
    parse_partitions,
    read_elections,
    spoken,
)
from tests.kit.plans import add_note
from tests.unit.recovery.plans import (
    HALF_READ,
    LOSS,
    SAFE,
    planned,
)


def test_the_kips_election_file_is_read_with_and_without_leaders(tmp_path: Path) -> None:
    path = tmp_path / "elections.json"
    path.write_text(
        """{"partitions":
        [{"topic": "foo", "partition": 1, "designatedLeader": 0},
         {"topic": "foobar", "partition": 2}],
        "version": 1}"""
    )
    assert read_elections(path) == (
        Election(TopicPartition("foo", 1), 0),
        Election(TopicPartition("foobar", 2), None),
    )


@pytest.mark.parametrize(
    ("text", "message"),
    [
        pytest.param("[]", 'f.json has no list "partitions"', id="no object"),
        pytest.param('{"partitions": {}}', 'has no list "partitions"', id="no list"),
        pytest.param('{"partitions": []}', "names no partition", id="R23: an empty list"),
        pytest.param('{"partitions": [7]}', "entry 1: it must be an object", id="no entry"),
        pytest.param('{"partitions": [{}]}', 'entry 1: it has no "topic"', id="no topic"),
        *(
            pytest.param('{"partitions": [' + entry + "]}", said, id=entry)
            for entry, said in (
                ('{"topic": "", "partitions": [0]}', "its topic is empty"),
                ('{"topic": "a/b", "partitions": [0]}', '"a/b" is no name of a topic'),
                ('{"topic": 5, "partitions": [0]}', "5 is no name"),
                ('{"topic": "a"}', r'entry 1 \(a\): it needs a list "partitions"'),
                ('{"topic": "a", "partitions": null}', 'it needs a list "partitions"'),
                ('{"topic": "a", "partitions": []}', "it lists no partition"),
                ('{"topic": "a", "partitions": [0, -1]}', '"partitions" is -1, which is negative'),
                ('{"topic": "a", "partitions": [true]}', "must be a whole number, not true"),
                ('{"topic": "a", "partitions": ["0"]}', 'must be a whole number, not "0"'),
                ('{"topic": "a", "partitions": [2147483648]}', "above 2147483647"),
                ('{"topic": "a", "partitions": [0, 0]}', "names a-0 twice"),
            )
        ),
    ],
)
def test_each_fault_of_a_partition_file_is_named(text: str, message: str) -> None:
    with pytest.raises(MalformedInput, match=message):
        parse_partitions(text, "f.json")


def test_a_hostile_topic_is_shown_short_and_in_ascii() -> None:
    hostile = "\x1b[31m[bold]" + "x" * 500
    with pytest.raises(MalformedInput) as refused:
        elections_of({"partitions": [{"topic": hostile, "partition": 0}]}, "f.json")
    assert str(refused.value).isascii()
    assert "\x1b" not in str(refused.value)
    assert len(str(refused.value)) < 160


EDITS: dict[str, Callable[[Plan], Plan]] = {
    "b2 by hand": lambda plan: set_leader(plan, LOSS.partition, 2),
    "b1 by hand": lambda plan: set_leader(plan, LOSS.partition, 1),
    "an unread one": lambda plan: set_leader(plan, HALF_READ.partition, 2),
    "without orders-1": lambda plan: exclude(plan, SAFE.partition),
    "never b2": lambda plan: never(plan, 2),
    "least loss": least_loss,
    "as recommended": as_recommended,
    "a note": lambda plan: add_note(plan, "[bold]ask ada"),
}
steps = st.lists(st.sampled_from([*EDITS, "undo", "redo"]), max_size=25)


@given(steps)
def test_undo_and_redo_lead_through_every_plan_that_ever_was(names: list[str]) -> None:
    """Held against a list and a place in it."""
    plan = planned(SAFE, LOSS, HALF_READ)
    history, model, place = PlanHistory.of(plan), [plan], 0
    for name in names:
        if name == "undo":
            history, place = history.undo(), max(place - 1, 0)
        elif name == "redo":
            history, place = history.redo(), min(place + 1, len(model) - 1)
        else:
            before, edited = history.present, EDITS[name](history.present)
            history = history.edited(edited, name)
            if edited is not before:
                model, place = [*model[: place + 1], edited], place + 1
        assert history.present == model[place]
        assert history.present.digest == model[place].digest
        assert (history.last is None, history.next is None) == (place == 0, place == len(model) - 1)


@pytest.mark.parametrize("again", ["ada", "Ada", " ADA ", "\uff41\uff44\uff41"])
def test_one_person_counts_once_however_the_name_is_written(again: str) -> None:
    plan = approve(planned(SAFE), "ada", 5)
    assert approve(plan, again, 6) is plan


def test_a_file_that_names_a_person_twice_counts_her_once() -> None:
    plan = approve(planned(SAFE), "ada", 5)
    twice = Approval(by="Ada", at_ms=6, digest=plan.digest)
    assert plan.breakglass is not None
    forged = plan.with_evidence(approvals=(*plan.breakglass.approvals, twice))
    assert [approval.by for approval in forged.approvals] == ["ada"]


@pytest.mark.parametrize("name", ["", "  ", "a\x1b[31m", "a\u202eb", "x" * 101])
def test_a_name_is_one_that_can_be_read(name: str) -> None:
    with pytest.raises(UsageError):
        approve(planned(SAFE), name, 5)


def test_groups_are_proquints_of_the_first_48_bits() -> None:
    """127.0.0.1 and 63.84.220.193 are examples of the proposal."""
    assert spoken("7f000001" + "3f54" + "0" * 52) == "lusab-babad-gutih"
    assert spoken("dcc1" + "0" * 60).startswith("tugad")
