"""Which saved states are in a checkpoint, and when there must be none without (H2, H10)."""

from __future__ import annotations

from dataclasses import replace
from uuid import UUID

import pytest

from breakglass.services.checkpoint.kafka.control import Control, Created, control_of
from breakglass.services.checkpoint.kafka.states import (
    CheckpointPartition,
    promised_states,
    with_states,
)
from breakglass.services.checkpoint.spark.partition_copy import needed_from
from breakglass.services.checkpoint.store.documents import (
    CutDocument,
    GroupCut,
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
)
from breakglass.services.errors import EvidenceChanged, Refused
from breakglass.services.model import TopicPartition

TOPIC = UUID(int=7).hex
PLACES = {1: CheckpointPartition(TopicPartition("bank", 0), TOPIC)}
TAKE = TakeDocument(5, Level.COORDINATED, (NumberedPartition(1, "bank", 0),), "nightly", 0)
CUT = CutDocument(0, {1: 100}, {"tellers": GroupCut(GroupPolicy.EXACTLY_ONCE, {1: 100})})
WHOLE, TRUNCATED = {1: 0}, {1: 40}


def saved(id: int, position: int, state: bytes | None) -> Created:
    return Created("tellers", TOPIC, 0, id, position, state)


def noted(*records: Created) -> Control:
    return control_of([record.record for record in records], since=TAKE.id)


def test_a_state_that_was_saved_at_the_checkpoint_is_promised_and_held() -> None:
    control = noted(saved(4, 50, b"before"), saved(5, 99, b"at it"))
    cut = with_states(TAKE, CUT, PLACES, TRUNCATED, control)
    assert (cut.groups["tellers"].states, cut.groups["tellers"].replayed) == ((1,), ())
    assert promised_states(TAKE, cut, PLACES, control) == {1: {"tellers": b"at it"}}


def test_it_is_found_behind_what_later_checkpoints_have_noted() -> None:
    control = noted(saved(5, 99, b"at it"), saved(6, 180, b"later"))
    cut = with_states(TAKE, CUT, PLACES, TRUNCATED, control)
    assert promised_states(TAKE, cut, PLACES, control) == {1: {"tellers": b"at it"}}


def test_an_owner_that_came_to_the_next_one_at_the_same_record_has_saved_it_for_both() -> None:
    control = noted(saved(6, 100, b"at both"))
    cut = with_states(TAKE, CUT, PLACES, TRUNCATED, control)
    assert promised_states(TAKE, cut, PLACES, control) == {1: {"tellers": b"at both"}}


def test_h10_a_state_that_another_checkpoint_has_taken_the_place_of_is_refused() -> None:
    with pytest.raises(Refused, match=r"another checkpoint was taken since.*take the next one"):
        with_states(TAKE, CUT, PLACES, TRUNCATED, noted(saved(6, 180, b"later")))


def test_with_a_log_that_is_whole_it_is_replayed_and_the_copy_needs_all_of_it() -> None:
    cut = with_states(TAKE, CUT, PLACES, WHOLE, noted(saved(6, 180, b"later")))
    assert (cut.groups["tellers"].states, cut.groups["tellers"].replayed) == ((), (1,))
    assert needed_from(1, cut, 0) == 0
    assert needed_from(1, CUT, 0) == 100


def test_h10_a_promised_state_that_is_gone_is_no_checkpoint_without_it() -> None:
    cut = with_states(TAKE, CUT, PLACES, TRUNCATED, noted(saved(5, 99, b"at it")))
    for control in (Control(), noted(saved(6, 180, b"later")), noted(saved(5, 99, None))):
        with pytest.raises(EvidenceChanged, match="had saved at checkpoint 5 in bank-0 is gone"):
            promised_states(TAKE, cut, PLACES, control)


def test_h10_a_group_that_goes_on_before_its_state_needs_the_log_from_its_start() -> None:
    control = noted(saved(5, 99, b"at it"))
    lower = replace(CUT, groups={"tellers": GroupCut(GroupPolicy.AT_LEAST_ONCE, {1: 90})})
    cut = with_states(TAKE, lower, PLACES, WHOLE, control)
    assert (cut.groups["tellers"].states, cut.groups["tellers"].replayed) == ((1,), (1,))
    with pytest.raises(Refused, match=r"before the state .* take one with --group tellers=exactly"):
        with_states(TAKE, lower, PLACES, TRUNCATED, control)


def test_h10_a_verified_checkpoint_holds_no_state_and_needs_the_log_from_its_start() -> None:
    verified = replace(TAKE, level=Level.VERIFIED)
    control = noted(saved(4, 50, b"before"))
    cut = with_states(verified, CUT, PLACES, WHOLE, control)
    assert (cut.groups["tellers"].states, cut.groups["tellers"].replayed) == ((), (1,))
    with pytest.raises(Refused, match="take a coordinated one"):
        with_states(verified, CUT, PLACES, TRUNCATED, control)


def test_a_group_that_saves_nothing_is_promised_nothing_and_replays_what_is_there() -> None:
    cut = with_states(TAKE, CUT, PLACES, TRUNCATED, noted(saved(5, 99, None)))
    assert cut == CUT
    assert promised_states(TAKE, cut, PLACES, Control()) == {1: {}}
