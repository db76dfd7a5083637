"""Groups that committed past the end of their log: listed, put back, and rolled back (R19)."""

from __future__ import annotations

import pytest

from breakglass.services.guard.journal import list_journals
from breakglass.services.guard.journal_view import JournalView
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import produce
from breakglass.services.lab.topics import create_topic
from breakglass.services.model import TopicPartition
from tests.lab.asking import commit, committed_offset
from tests.lab.console.commands import on

TOPIC = "invoices"
INVOICES = TopicPartition(TOPIC, 0)
RECORDS = 20


def committed(cluster: Cluster) -> int:
    """Where the group stands on the topic's only partition."""
    return committed_offset(cluster, "billing", INVOICES)


@pytest.fixture(scope="module")
def ahead(three_brokers: Cluster) -> None:
    """A group without members that committed 35 where the log ends at 20, and one at the end."""
    create_topic(three_brokers, TOPIC, [[1, 2, 3]])
    produce(three_brokers, TOPIC, 0, RECORDS)
    commit(three_brokers, "billing", INVOICES, 35)
    commit(three_brokers, "reporting", INVOICES, RECORDS)


def test_r19_a_group_past_the_end_is_listed_and_one_at_the_end_is_not(
    three_brokers: Cluster, ahead: None
) -> None:
    listed = on(three_brokers, "groups", "past-end", "--topics", TOPIC, "--json")

    assert listed.code == 0, listed.err
    assert [one["group"] for one in listed.document["past_end"]] == ["billing"]
    assert listed.document["past_end"][0]["to"] == RECORDS


def test_r19_a_reset_wants_the_write_flag_and_the_phrase_that_names_it(
    three_brokers: Cluster, ahead: None
) -> None:
    unarmed = on(three_brokers, "groups", "reset", "--topics", TOPIC)
    unasked = on(three_brokers, "groups", "reset", "--topics", TOPIC, "--write")

    assert (unarmed.code, unasked.code) == (3, 3)
    assert unasked.said[-1] == f"consent: billing on {TOPIC}-0 to {RECORDS}"
    assert committed(three_brokers) == 35


def test_r19_a_reset_moves_the_group_to_the_end_and_its_rollback_moves_it_back(
    three_brokers: Cluster, ahead: None
) -> None:
    phrase = f"billing on {TOPIC}-0 to {RECORDS}"
    reset = on(three_brokers, "groups", "reset", "--topics", TOPIC, "--write", "--consent", phrase)
    assert reset.code == 0, reset.err
    assert committed(three_brokers) == RECORDS

    journal = list_journals(three_brokers.layout.cluster_id)[0]
    assert isinstance(journal, JournalView)
    back = f"billing on {TOPIC}-0 to 35"
    rolled = on(
        three_brokers, "groups", "rollback", "--journal", journal.path, "--write",
        "--consent", back,
    )  # fmt: skip
    assert rolled.code == 0, rolled.err
    assert committed(three_brokers) == 35
