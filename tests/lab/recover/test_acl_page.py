"""docs/acls.md holds on a guarded cluster: exactly what it says each command needs, it needs.

One lab for all: a group and offline partitions of `events`, each election on one of its own.
"""

import json
import logging
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position

from breakglass.console.wiring import Connection
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.guard.journal import Journal, list_journals, read
from breakglass.services.incident.watch import IncidentWatch
from breakglass.services.kafka.cluster.settings import UNCLEAN_ELECTION
from breakglass.services.lab.properties import OPERATOR
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.execution.steps import ELECT
from tests.kit import acl_page
from tests.kit.access import Acl, Operation, Resource, granted
from tests.kit.client_properties import write_client_properties
from tests.kit.commits import commit_offsets
from tests.kit.program import Ended, breakglass
from tests.lab.console.commands import elections
from tests.lab.recover.settings.asking import own
from tests.lab.scenarios.damaged import Damaged, damaged

TOPIC, GROUP = "events", "billing"
PARTITIONS = 9
acls_of = partial(acl_page.acls_of, topic=TOPIC, group=GROUP)


def named(acl: Acl) -> str:
    """*acl* as messages name it."""
    resource = {Resource.TOPIC: f"topic {TOPIC}", Resource.GROUP: f"group {GROUP}"}
    return f"{acl.operation.name} on {resource.get(acl.resource, 'CLUSTER')}"


@dataclass(frozen=True)
class Guarded:
    """The lab, its operator, and offline partitions that nobody has elected."""

    lab: Damaged
    config: Path
    folder: Path
    unused: Iterator[TopicPartition]

    def allowed(self, *acls: Acl) -> AbstractContextManager[None]:
        """Let the operator do what *acls* say, and nothing else."""
        return granted(self.lab.cluster, *acls)

    def run(self, *arguments: object) -> Ended:
        servers = self.lab.cluster.bootstrap_servers
        return breakglass(
            *arguments, "--bootstrap-server", servers, "--command-config", self.config
        )


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    overrides = {"offsets.topic.replication.factor": "1"}
    options = {"partitions": str(PARTITIONS)}
    with damaged(folder / "lab", "many", options=options, overrides=overrides, secured=True) as lab:
        commit_far_past_the_end(lab)
        config = write_client_properties(lab.cluster.layout, OPERATOR)
        unused = iter([partition.partition for partition in lab.truth.partitions])
        yield Guarded(lab, config, folder, unused)


def commit_far_past_the_end(lab: Damaged) -> None:
    """Let a group without members stand at 99 on every partition, which the first leader wrote."""
    positions = [Position(TOPIC, number, 99, leader_epoch=0) for number in range(PARTITIONS)]
    consumer = Consumer(
        {"bootstrap.servers": lab.cluster.lab_bootstrap, "group.id": GROUP},
        logger=logging.getLogger("tests.acls"),
    )
    try:
        commit_offsets(consumer, positions)
    finally:
        consumer.close()


def rescue(guarded: Guarded, partition: TopicPartition) -> Ended:
    """b1 holds one record more than b2."""
    plan = elections(guarded.folder, {partition: 2})
    return guarded.run("rescue", "--plan", plan, "--store", guarded.folder / "rescued")


def unclean_recovery(guarded: Guarded, partition: TopicPartition) -> Ended:
    path = guarded.folder / f"{partition}.json"
    entry = {"topic": partition.topic, "partitions": [partition.partition]}
    path.write_text(json.dumps({"partitions": [entry]}), encoding="utf-8")
    wanted = ("--automated-recovery", "--path-to-json-file", path, "--write")
    return guarded.run(
        "unclean-recovery", *wanted, "--consent", f"{partition} lose 0 and abandon b3"
    )


def recover(guarded: Guarded, partition: TopicPartition) -> Ended:
    wanted = ("--plan", elections(guarded.folder, {partition: 1}), "--write")
    # b3 is dead, and nobody knows what it holds.
    return guarded.run("recover", *wanted, "--consent", f"{partition} lose 0 and abandon b3")


def leader_election(guarded: Guarded, partition: TopicPartition) -> Ended:
    path = elections(guarded.folder, {partition: 1})
    wanted = ("--election-type", "designated", "--path-to-json-file", path, "--write")
    return guarded.run(
        "leader-election", *wanted, "--consent", f"{partition} lose 0 and abandon b3"
    )


def console(guarded: Guarded, _: TopicPartition) -> Ended:
    """What its screens are told; `serve` shows the same ones."""
    options = ConnectionOptions(guarded.lab.cluster.bootstrap_servers, str(guarded.config))
    with closing(IncidentWatch(Connection(options).access())) as watch:
        incident = list(watch.read())[-1]
    return Ended(0, "", "\n".join(f"missing ACL: {acl}" for acl in incident.missing_acls))


def capture(guarded: Guarded, _: TopicPartition) -> Ended:
    path = guarded.folder / "bundle.tar.gz"
    path.unlink(missing_ok=True)
    return guarded.run("bundle", "capture", "--out", path)


Run = Callable[[Guarded, TopicPartition], Ended]
READING: dict[str, Run] = {
    "console": console,
    "triage": lambda guarded, _: guarded.run("triage"),
    "bundle capture": capture,
    "plan make": lambda guarded, _: guarded.run("plan", "make"),
    "plan check": lambda guarded, partition: guarded.run(
        "plan", "check", elections(guarded.folder, {partition: 1})
    ),
    "rescue": rescue,
}
ELECTING: dict[str, Run] = {
    "unclean-recovery": unclean_recovery,
    "recover": recover,
    "leader-election": leader_election,
}


def each_acl(commands: dict[str, Run], *without: Resource) -> list[Any]:
    """Every command with every ACL that it needs."""
    return [
        pytest.param(command, run, acl, id=f"{command} without {named(acl)}")
        for command, run in commands.items()
        for acl in acls_of(command)
        if acl.resource not in without
    ]


def all_but(command: str, acl: Acl) -> list[Acl]:
    """What *command* needs without *acl*, of which what it includes is left."""
    return acl_page.all_but(acls_of(command), acl)


@pytest.mark.parametrize("command", READING)
def test_r22_a_command_that_reads_has_all_it_needs(guarded: Guarded, command: str) -> None:
    with guarded.allowed(*acls_of(command)):
        ended = READING[command](guarded, TopicPartition(TOPIC, PARTITIONS - 1))
    assert ended.code == 0, ended.err
    assert "ACL" not in ended.err
    assert "not allowed" not in ended.err


@pytest.mark.parametrize(("command", "run", "acl"), each_acl(READING))
def test_r22_a_command_that_reads_names_what_it_lacks(
    guarded: Guarded, command: str, run: Run, acl: Acl
) -> None:
    with guarded.allowed(*all_but(command, acl)):
        ended = run(guarded, TopicPartition(TOPIC, PARTITIONS - 1))
    assert f"missing ACL: {named(acl)}" in ended.said


DESCRIBE_CONFIGS = Acl(OPERATOR, Operation.DESCRIBE_CONFIGS, Resource.TOPIC, TOPIC)
"""Without it a loss is approximate, and a loss of 0 is exact all the same."""


@pytest.mark.parametrize(
    ("command", "run", "acl"),
    [one for one in each_acl(ELECTING, Resource.GROUP) if one.values[2] != DESCRIBE_CONFIGS],
)
def test_r22_an_election_that_lacks_one_names_it_and_changes_nothing(
    guarded: Guarded, command: str, run: Run, acl: Acl
) -> None:
    partition = TopicPartition(TOPIC, PARTITIONS - 1)
    before = guarded.lab.state(partition)
    with guarded.allowed(*all_but(command, acl)):
        ended = run(guarded, partition)
    assert ended.code != 0
    assert named(acl) in ended.err
    assert guarded.lab.state(partition) == before


@pytest.mark.parametrize("command", ELECTING)
def test_r22_an_election_has_all_it_needs(guarded: Guarded, command: str) -> None:
    partition = next(guarded.unused)
    with guarded.allowed(*acls_of(command)):
        ended = ELECTING[command](guarded, partition)
    assert ended.code == 0, ended.err
    assert guarded.lab.state(partition).leader == 1
    assert "missing ACL" not in ended.err


def test_r22_an_election_without_loss_is_held_without_describe_configs_and_names_it(
    guarded: Guarded,
) -> None:
    partition = next(guarded.unused)
    with guarded.allowed(*all_but("unclean-recovery", DESCRIBE_CONFIGS)):
        ended = unclean_recovery(guarded, partition)
    assert ended.code == 0, ended.err
    assert f"missing ACL: {named(DESCRIBE_CONFIGS)}" in ended.said
    assert guarded.lab.state(partition).leader == 1


HOLD, RELEASE = ("recover", "freeze", "--topic", TOPIC, "--write"), ("recover", "thaw", "--write")


def test_r22_a_hold_that_lacks_alter_configs_names_it_and_changes_nothing(guarded: Guarded) -> None:
    acl = Acl(OPERATOR, Operation.ALTER_CONFIGS, Resource.TOPIC, TOPIC)
    assert acl in acls_of("recover freeze")
    with guarded.allowed(*all_but("recover freeze", acl)):
        ended = guarded.run(*HOLD, "--consent", f"hold {TOPIC}")
    assert ended.code == 1
    assert f"grant {named(acl)} to this user" in ended.err
    assert own(guarded.lab.cluster, UNCLEAN_ELECTION, TOPIC) is None


def test_r22_a_hold_and_its_release_have_all_they_need(guarded: Guarded) -> None:
    with guarded.allowed(*acls_of("recover freeze")):
        held = guarded.run(*HOLD, "--consent", f"hold {TOPIC}")
        assert held.code == 0, held.err
        assert own(guarded.lab.cluster, UNCLEAN_ELECTION, TOPIC) == "false"
        # How a release names what is offline.
        asked = guarded.run(*RELEASE)
        released = guarded.run(*RELEASE, "--consent", asked.said[-1].removeprefix("consent: "))
        assert released.code == 0, released.err
    assert own(guarded.lab.cluster, UNCLEAN_ELECTION, TOPIC) is None


def test_r22_a_topic_that_is_named_and_may_not_be_described_is_an_error(guarded: Guarded) -> None:
    with guarded.allowed(Acl(OPERATOR, Operation.DESCRIBE, Resource.CLUSTER)):
        ended = guarded.run("triage", "--topics", TOPIC)
    assert ended.code == 1
    assert f"grant DESCRIBE on topic {TOPIC}" in ended.err


def test_r22_who_may_describe_no_topic_is_told_so(guarded: Guarded) -> None:
    with guarded.allowed(Acl(OPERATOR, Operation.DESCRIBE, Resource.CLUSTER)):
        ended = guarded.run("triage")
    assert "this user is shown no topic: grant DESCRIBE on topics" in ended.err


@pytest.fixture
def recovered(guarded: Guarded) -> TopicPartition:
    """A partition that leads again, with the group past its end."""
    partition = next(guarded.unused)
    with guarded.allowed(*acls_of("recover")):
        assert recover(guarded, partition).code == 0
    return partition


def past_end(guarded: Guarded) -> set[int]:
    """The partitions past whose end the group stands; others that it reads are offline."""
    ended = guarded.run("after", "groups", "list", "--json")
    assert ended.code == 1, ended.err
    return {one["partition"]["partition"] for one in ended.document["past_end"]}


def reset(guarded: Guarded) -> Ended:
    asked = guarded.run("after", "groups", "reset", "--write")
    phrase = asked.said[-1].removeprefix("consent: ")
    return guarded.run("after", "groups", "reset", "--write", "--consent", phrase)


def test_r22_a_group_may_be_seen_and_not_moved(guarded: Guarded, recovered: TopicPartition) -> None:
    with guarded.allowed(*acls_of("after groups list")):
        ended = reset(guarded)
        assert recovered.partition in past_end(guarded)
    assert ended.code == 1
    assert f"needs READ on group {GROUP}" in ended.err


def test_r22_a_group_is_moved_and_back(guarded: Guarded, recovered: TopicPartition) -> None:
    with guarded.allowed(*acls_of("after groups reset")):
        ended = reset(guarded)
        assert f"{GROUP} on {recovered}  moved" in ended.out
        assert recovered.partition not in past_end(guarded)
    with guarded.allowed(*acls_of("after groups rollback")):
        journal = list_journals(guarded.lab.truth.cluster_id)[0].path
        asked = guarded.run("after", "groups", "rollback", "--journal", journal, "--write")
        phrase = asked.said[-1].removeprefix("consent: ")
        ended = guarded.run(
            "after", "groups", "rollback", "--journal", journal, "--write", "--consent", phrase
        )
        assert ended.code == 0, ended.err
        # What is committed for a group has no epoch, and its record is not to be read here.
        told = guarded.run("after", "groups", "list", "--json").document["unknown"]
        assert any(f"{GROUP} on {recovered} committed 99" in one for one in told)


@pytest.mark.parametrize("weaker", [False, True])
def test_r22_a_ledger_is_confirmed_by_who_may_read_the_topic(
    guarded: Guarded, recovered: TopicPartition, weaker: bool
) -> None:
    (needed,) = acls_of("report")
    with guarded.allowed(*(all_but("report", needed) if weaker else [needed])):
        ended = guarded.run("report", "--json")
    assert ended.code == 0, ended.err
    (one,) = ended.document["partitions"]
    assert (one["topic"], one["partition"]) == (recovered.topic, recovered.partition)
    confirmed = one["confirmed"]
    assert confirmed == {"unknown": confirmed["unknown"]} if weaker else confirmed is True


@pytest.fixture
def unknown_election(guarded: Guarded) -> Path:
    """The journal of an election that nothing is known of; its partition is offline."""
    with Journal.open(guarded.lab.truth.cluster_id) as journal:
        partition = TopicPartition(TOPIC, PARTITIONS - 1)
        journal.request(ELECT, {partition: {"designee": 1}})
    return journal.path


@pytest.mark.parametrize("words", ["list", "show", "show --timeline"])
def test_r22_the_journals_of_a_cluster_are_shown_to_who_may_do_nothing_there(
    guarded: Guarded, unknown_election: Path, words: str
) -> None:
    command, *options = words.split()
    with guarded.allowed(*acls_of(f"journal {command}")):
        ended = guarded.run("journal", command, *options)
    assert ended.code == 0, ended.err
    assert unknown_election.stem[:15] in ended.out + ended.err


def test_r22_an_unknown_outcome_is_looked_up_by_who_may_describe_its_topic(
    guarded: Guarded, unknown_election: Path
) -> None:
    with guarded.allowed(*acls_of("journal check")):
        ended = guarded.run("journal", "check", unknown_election, "--json")
    assert ended.code == 0, ended.err
    assert [one["result"] for one in ended.document["answers"]] == ["not elected"]


def test_r22_an_unknown_outcome_stays_unknown_to_who_may_not(
    guarded: Guarded, unknown_election: Path
) -> None:
    with guarded.allowed(Acl(OPERATOR, Operation.DESCRIBE, Resource.CLUSTER)):
        ended = guarded.run("journal", "check", unknown_election)
    assert ended.code == 1
    assert f"grant DESCRIBE on topic {TOPIC}" in ended.err
    assert read(unknown_election).unsettled
