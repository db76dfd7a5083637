"""Which settings a topic gets back once its retention is not held any more."""

from __future__ import annotations

from breakglass.services.checkpoint.kafka.holding import HELD, put_back

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
