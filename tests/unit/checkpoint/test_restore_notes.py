"""What a restore says besides its records: settings that a topic got, and what was left out."""

from __future__ import annotations

from breakglass.services.checkpoint.restore_notes import (
    KEPT,
    REMOVED,
    SettingsGiven,
    given,
    told_of,
)
from breakglass.services.pipeline.restore.restore import TopicRestored

SAVED = {"retention.ms": "1000", "message.format.version": "2.8", "min.insync.replicas": "2"}


def test_a_new_topic_gets_what_was_saved_but_for_what_brokers_do_not_have_any_more() -> None:
    assert given("bank2", SAVED, SAVED, exists=False) == SettingsGiven(
        "bank2",
        {"min.insync.replicas": "2", "retention.ms": "1000"},
        {"message.format.version": REMOVED},
    )


def test_a_topic_that_is_there_keeps_its_own() -> None:
    found = given("bank", {"retention.ms": "5", "min.insync.replicas": "2"}, SAVED, exists=True)
    assert found.settings == {"min.insync.replicas": "2", "retention.ms": "5"}
    assert found.left_out == {"message.format.version": REMOVED, "retention.ms": KEPT}


def test_a_restore_that_kept_everything_has_nothing_more_to_say() -> None:
    assert list(told_of(TopicRestored("bank", "bank2", settings_back=True, verified=True))) == []


def test_what_was_declared_and_what_differs_is_told() -> None:
    one = TopicRestored("bank", "bank2", settings_back=True, verified=False)
    one.declared, one.differences = {"timestamp type": 3}, {"missing": 1_000}
    one.groups_failed = {"tellers": "it has members"}
    assert list(told_of(one)) == [
        "bank2  3 records: timestamp type",
        "bank2  1,000 records missing",
        "bank2  group tellers was not moved: it has members",
    ]
