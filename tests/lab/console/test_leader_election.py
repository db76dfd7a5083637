"""`breakglass leader-election` on real brokers: preferred, unclean by order, designated."""

from __future__ import annotations

import json
from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.topics import elect_preferred, reassign
from breakglass.services.model import PartitionState, TopicPartition
from tests.lab.console.commands import agreeing, last_journal, leader, on
from tests.lab.console.conftest import B1_ALSO, PREFERRED

COMMAND = "leader-election"


def elections(folder: Path, *partitions: TopicPartition, **more: int) -> Path:
    """A file of `--path-to-json-file`; *more* is put into each entry."""
    path = folder / "elections.json"
    entries = [
        {"topic": partition.topic, "partition": partition.partition, **more}
        for partition in partitions
    ]
    path.write_text(json.dumps({"partitions": entries}))
    return path


def led_by_b1(broken: Cluster) -> list[TopicPartition]:
    """The partitions of PREFERRED, led by b1: a broker that is busy may lose them for a moment."""
    every = [TopicPartition(PREFERRED, number) for number in range(3)]

    def states() -> list[PartitionState]:
        return [broken.partition(PREFERRED, number) for number in range(3)]

    broken.wait_until(lambda: all(1 in state.isr for state in states()), "b1 in sync")
    reassign(broken, dict.fromkeys(every, (1, 2)))
    elect_preferred(broken, *every)
    reassign(broken, dict.fromkeys(every, (2, 1)))
    broken.wait_until(
        lambda: all(state.assignment == (2, 1) for state in states()), "b2 to be first"
    )
    assert [leader(broken, PREFERRED, partition.partition) for partition in every] == [1, 1, 1]
    return every


def test_a_preferred_election_acts_only_where_another_leads(
    broken: Cluster, tmp_path: Path
) -> None:
    one, other, _ = led_by_b1(broken)
    only_one = ("--election-type", "preferred", "--topic", PREFERRED, "--partition", "0")

    refused = on(broken, COMMAND, *only_one, "--write")
    assert refused.code == 3
    assert refused.said[-1] == f"consent: {PREFERRED}-0 lose 0"
    ended, _ = agreeing(broken, COMMAND, *only_one)
    assert ended.code == 0, ended.err
    assert ended.out.startswith(f"{PREFERRED}-0  elected b2")

    both = elections(tmp_path, one, other)
    ended, phrases = agreeing(
        broken, COMMAND, "--election-type", "PREFERRED", "--path-to-json-file", both
    )
    assert phrases == [f"{PREFERRED}-1 lose 0"]
    assert [leader(broken, PREFERRED, number) for number in range(3)] == [2, 2, 1]

    again = on(
        broken, COMMAND, "--election-type", "preferred", "--path-to-json-file", both, "--write"
    )
    assert (again.code, again.out) == (0, "")
    assert again.said == ["every partition with a leader is led by its preferred replica already"]


def test_a_preferred_election_of_a_leaderless_partition_fails_and_says_so(broken: Cluster) -> None:
    named = ("--topic", "kafkas-form", "--partition", "0")
    ended = on(broken, COMMAND, "--election-type", "preferred", *named, "--write")
    assert ended.code == 1
    assert "kafkas-form-0  failed: it has no leader" in ended.said[0]
    assert leader(broken, "kafkas-form") is None


def test_an_unclean_election_takes_the_first_live_replica_for_its_price(broken: Cluster) -> None:
    assert broken.partition("unclean", 0).assignment == (3, 2, 1)
    named = ("--election-type", "unclean", "--topic", "unclean", "--partition", "0")
    ended, (phrase,) = agreeing(broken, COMMAND, *named)
    assert phrase == f"unclean-0 lose {B1_ALSO} and abandon b3"
    assert ended.code == 0, ended.err
    assert leader(broken, "unclean", 0) == 2
    assert leader(broken, "unclean", 1) is None

    again = on(broken, COMMAND, *named, "--write")
    assert (again.code, again.out) == (0, "unclean-0  already online: led by b2\n")


def test_an_unclean_election_reads_a_file_in_kafkas_form(broken: Cluster, tmp_path: Path) -> None:
    path = elections(tmp_path, TopicPartition("kafkas-form", 0), TopicPartition("no-such", 4))
    ended, _ = agreeing(broken, COMMAND, "--election-type", "unclean", "--path-to-json-file", path)
    assert ended.code == 1
    assert "no-such-4  failed: the cluster has no such partition" in ended.said
    assert leader(broken, "kafkas-form") == 2


def test_a_designated_election_elects_the_replica_of_the_file(
    broken: Cluster, tmp_path: Path
) -> None:
    path = elections(tmp_path, TopicPartition("designated", 0), designatedLeader=2)
    named = ("--election-type", "designated", "--path-to-json-file", path)
    ended, (phrase,) = agreeing(broken, COMMAND, *named)
    assert phrase == f"designated-0 lose {B1_ALSO} and abandon b3"
    assert ended.code == 0, ended.err
    assert leader(broken, "designated", 0) == 2
    assert broken.partition("designated", 0).assignment == (3, 1, 2)
    journal = last_journal(broken)
    assert (journal.result, journal.consent and journal.consent.payload["phrase"]) == (
        "succeeded",
        phrase,
    )


def test_r16_a_designated_leader_that_cannot_lead_is_refused(
    broken: Cluster, tmp_path: Path
) -> None:
    for broker, reason in [(3, "b3 is fenced"), (9, "b9 is not in the assignment 3, 2, 1")]:
        path = elections(tmp_path, TopicPartition("designated", 1), designatedLeader=broker)
        named = ("--election-type", "designated", "--path-to-json-file", path)
        ended = on(broken, COMMAND, *named, "--write")
        assert ended.code == 3
        assert f"designated-1  refused: {reason}" in ended.said
    assert leader(broken, "designated", 1) is None
