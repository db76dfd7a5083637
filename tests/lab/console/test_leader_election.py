"""`breakglass leader-election` on real brokers: preferred, unclean by order, designated, refused;
Kafka's own tools have the options that are said to be theirs, and take a plan of ours (R24).
"""

import json
import re
import subprocess
import tomllib
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import LEADER_ELECTION, distribution, run_tool
from breakglass.services.lab.layout import free_ports
from breakglass.services.lab.topics import elect_preferred, reassign
from breakglass.services.model import PartitionState, TopicPartition
from breakglass.services.recovery.plan.document import Plan
from breakglass.services.recovery.plan.file import write_plan
from scripts.option_table import NAMES
from tests.kit.program import breakglass
from tests.lab.console.commands import agreeing, elections, last_journal, leader, on
from tests.lab.console.conftest import B1_ALSO, PREFERRED
from tests.lab.scenarios.damaged import damaged
from tests.unit.recovery.plans import EVERY_KIND, planned

COMMAND = "leader-election"


def named(folder: Path, *partitions: TopicPartition) -> Path:
    """A file of `--path-to-json-file` without leaders."""
    path = folder / "partitions.json"
    entries = [
        {"topic": partition.topic, "partition": partition.partition} for partition in partitions
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

    both = named(tmp_path, one, other)
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
    path = named(tmp_path, TopicPartition("kafkas-form", 0), TopicPartition("no-such", 4))
    ended, _ = agreeing(broken, COMMAND, "--election-type", "unclean", "--path-to-json-file", path)
    assert ended.code == 1
    assert "no-such-4  failed: the cluster has no such partition" in ended.said
    assert leader(broken, "kafkas-form") == 2


def test_a_designated_election_elects_the_replica_of_the_file(
    broken: Cluster, tmp_path: Path
) -> None:
    path = elections(tmp_path, {TopicPartition("designated", 0): 2})
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
        path = elections(tmp_path, {TopicPartition("designated", 1): broker})
        named = ("--election-type", "designated", "--path-to-json-file", path)
        ended = on(broken, COMMAND, *named, "--write")
        assert ended.code == 3
        assert f"designated-1  refused: {reason}" in ended.said
    assert leader(broken, "designated", 1) is None


def test_r24_kafkas_own_tool_reads_exactly_the_partitions_that_the_plan_elects(
    tmp_path: Path,
) -> None:
    """Named twice, they are read back to us in its complaint, before it asks any broker."""
    once = planned(*EVERY_KIND)
    twice = Plan(entries=once.entries * 2, breakglass=once.breakglass)
    path = tmp_path / "plan.json"
    write_plan(twice, path)
    (port,) = free_ports(1)
    where = ["--bootstrap-server", f"127.0.0.1:{port}", "--path-to-json-file", str(path)]
    found = run_tool(distribution(), LEADER_ELECTION, [*where, "--election-type", "unclean"])
    said = (found.stdout + found.stderr).splitlines()[0]
    complaint, _, listed = said.partition(": [")
    assert complaint == "Replica election data contains duplicate partitions"
    assert sorted(listed.rstrip("]").split(", ")) == sorted(map(str, once.leaders))


PROGRAMS = {
    "kafka-configs.sh": "kafka.admin.ConfigCommand",
    "kafka-consumer-groups.sh": "org.apache.kafka.tools.consumer.group.ConsumerGroupCommand",
    "kafka-dump-log.sh": "org.apache.kafka.tools.DumpLogSegments",
    "kafka-leader-election.sh": "org.apache.kafka.tools.LeaderElectionCommand",
    "kafka-producer-perf-test.sh": "org.apache.kafka.tools.ProducerPerformance",
    "kafka-reassign-partitions.sh": "org.apache.kafka.tools.reassign.ReassignPartitionsCommand",
    "kafka-topics.sh": "org.apache.kafka.tools.TopicCommand",
}
NOT_RELEASED = {"kafka-unclean-recovery.sh"}
"""Tools of a KIP that no release has."""


def names() -> dict[str, set[str]]:
    """The options that the page names, by tool of Kafka."""
    found: dict[str, set[str]] = {}
    rows = tomllib.loads(NAMES.read_text())["counterpart"]
    for tool, _, name in (their.partition(": ") for row in rows for their in row["theirs"]):
        if tool.startswith("kafka-") and tool not in NOT_RELEASED:
            found.setdefault(tool, set()).add(name)
    return found


@pytest.mark.parametrize("tool", sorted(names()))
def test_a_tool_of_kafka_has_the_options_that_the_page_names(tool: str) -> None:
    kafka = distribution()
    command = [str(kafka.java), "-Xshare:auto", "-cp", kafka.classpath, PROGRAMS[tool], "--help"]
    helped = subprocess.run(command, capture_output=True, text=True, check=False, timeout=120)
    offered = set(re.findall(r"--[a-z.-]*[a-z]", helped.stdout + helped.stderr))
    assert names()[tool] <= offered


def refused_everywhere(
    cluster: Cluster, folder: Path, topic: str, broker: int, *, reason: str
) -> None:
    """Fail unless electing *broker* on partition 0 is refused by a plan, a bare plan and a file."""
    plan = folder / "plan.json"
    on(cluster, "plan", "make", "--topics", topic, "--out", plan)
    before = plan.read_bytes()
    ended = breakglass("plan", "edit", plan, f"{topic}-0={broker}")
    assert (ended.code, ended.said) == (3, [f"b{broker} cannot lead {topic}-0: {reason}."])
    assert plan.read_bytes() == before

    bare = elections(folder, {TopicPartition(topic, 0): broker})
    ended = on(cluster, "recover", "--plan", bare, "--write")
    assert ended.code == 3
    assert ended.said == [f"{topic}-0  refused: {reason}: choose another leader"]
    designated = ("--election-type", "designated", "--path-to-json-file", bare, "--write")
    ended = on(cluster, "leader-election", *designated)
    assert ended.code == 3
    assert f"{topic}-0  refused: {reason}" in ended.said
    assert leader(cluster, topic) is None


def test_r16_a_replica_whose_log_directory_is_offline(tmp_path: Path) -> None:
    with damaged(tmp_path / "lab", "failed-logdir") as lab:
        reason = "the log directory of b1 is offline"
        refused_everywhere(lab.cluster, tmp_path, "readings", 1, reason=reason)


def test_r16_a_replica_that_clients_reach_and_its_controllers_do_not(tmp_path: Path) -> None:
    with damaged(tmp_path / "lab", "fenced-designee") as lab:
        readable = [
            replica for replica in lab.truth.partition("payments", 0).replicas if replica.readable
        ]
        assert max(readable, key=lambda truth: truth.log_end).broker == 3
        refused_everywhere(lab.cluster, tmp_path, "payments", 3, reason="b3 is fenced")
