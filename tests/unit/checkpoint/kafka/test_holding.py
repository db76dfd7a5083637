"""Which settings a topic gets back once its retention is not held any more."""

from __future__ import annotations

from uuid import UUID

from breakglass.services.checkpoint.kafka.control import Control, RetentionHold
from breakglass.services.checkpoint.kafka.holding import HELD, put_back, without_hold

NOTHING = dict.fromkeys(HELD)


def test_what_was_its_own_is_set_again_and_the_rest_are_defaults() -> None:
    before = {**NOTHING, "retention.ms": "1000"}
    assert put_back(before, HELD) == (
        {"retention.ms": "1000"},
        ["retention.bytes", "min.compaction.lag.ms", "max.compaction.lag.ms"],
    )


def test_what_somebody_has_changed_meanwhile_is_theirs() -> None:
    now = {**HELD, "retention.ms": "5", "cleanup.policy": "compact"}
    back, defaults = put_back({**NOTHING, "retention.ms": "1000"}, now)
    assert back == {}
    assert "retention.ms" not in defaults


def test_nothing_is_left_to_do_where_it_was_put_back_already() -> None:
    assert put_back({**NOTHING, "retention.ms": "1000"}, {"retention.ms": "1000"}) == ({}, [])


TOPIC_ID = UUID(int=7)


def test_a_copy_that_is_made_during_a_hold_notes_the_settings_before_it() -> None:
    before = {**NOTHING, "retention.ms": "1000"}
    hold = RetentionHold(TOPIC_ID.hex, "request", "orders", before)
    known = Control(held={(TOPIC_ID.hex, "request"): hold})
    own = {**HELD, "cleanup.policy": "compact"}
    expected = {"cleanup.policy": "compact", "retention.ms": "1000"}
    assert without_hold(TOPIC_ID, own, known) == expected


def test_settings_that_only_look_like_a_hold_stay() -> None:
    assert without_hold(TOPIC_ID, dict(HELD), Control()) == HELD
