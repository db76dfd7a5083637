"""A cluster that lost every controller comes back by what `quorum prepare` prints, word by word.

Every controller's disk is deleted. What was acknowledged before is read back by clients that know
nothing of it: records, topics, settings, ACLs, users; and a new producer's records are in the log.
"""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer
from confluent_kafka import TopicPartition as Position
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBindingFilter, AclOperation, AclPermissionType
from confluent_kafka.admin._config import ConfigResource
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType

from breakglass.services.lab.cluster import Cluster, LabOptions
from breakglass.services.lab.distribution import run_tool
from breakglass.services.lab.layout import Listener, free_ports
from breakglass.services.lab.node import Node, format_controller, kafka_uuid
from breakglass.services.lab.properties import (
    PLAIN,
    PLAIN_MODULE,
    SUPER_USER,
    lab_password,
    render,
    security_folder,
    server_properties,
)
from breakglass.services.lab.topics import configure_topic, create_topic
from breakglass.services.recovery.rescue.broker_folder import running_broker
from tests.kit import configs
from tests.kit.program import Ended, breakglass
from tests.lab.asking import transactional
from tests.lab.quorum.lagging import (
    DELETED,
    EVERYWHERE,
    GROWN,
    LATE,
    NEW,
    OLD,
    OVERRIDES,
    PRINCIPAL,
    USER,
    Lagged,
    addresses,
    change_everything,
    copy_of,
    dump,
    kill_everything,
    lose_everything,
    make_topics,
    metadata_dir_of,
    produce,
)

pytestmark = [pytest.mark.lab, pytest.mark.xdist_group("quorum")]

WRITTEN = [*range(25), *[0] * 12, *range(LATE)]
"""The values of each partition of t-old."""


@dataclass
class Lost:
    """A cluster whose processes are killed, with its disks as they were then."""

    lagged: Lagged
    dynamic: bool
    kept: Path

    def __post_init__(self) -> None:
        self._layout = self.cluster.layout

    @property
    def cluster(self) -> Cluster:
        return self.lagged.cluster

    def restore(self) -> None:
        """Every disk and every setting as it was when the processes were killed."""
        for node in self.cluster.nodes:
            if node.running:
                node.kill()
        self.cluster.layout = self._layout
        for node in self.cluster.nodes:
            for folder in {metadata_dir_of(node), *node.layout.log_dirs}:
                shutil.rmtree(folder, ignore_errors=True)
                shutil.copytree(self.kept / folder.relative_to(self.cluster.state_dir), folder)
            for aside in node.layout.folder.glob("*.aside-*"):
                shutil.rmtree(aside)


@pytest.fixture(
    scope="module", params=[("4.3.1", False), ("4.3.1", True), ("3.9.2", False)], ids=str
)
def killed(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Lost]:
    version, dynamic = request.param
    folder = tmp_path_factory.mktemp("return")
    options: LabOptions = {"controllers": 3, "overrides": OVERRIDES, "tethered": True}
    options["kafka_version"], options["log_dirs"] = version, 2
    options["secured"] = dynamic
    with Cluster.plan(folder / "lab", **options) as cluster:
        first = cluster.broker(1)
        # As most brokers have it: the metadata log lies among the partitions.
        cluster.configure(1, {"metadata.log.dir": str(first.layout.log_dirs[0])})
        if dynamic:
            secure_controllers(cluster)
            make_dynamic(cluster)
        cluster.start()
        lagged = lose_everything(cluster)
        for node in cluster.nodes:
            for one in {metadata_dir_of(node), *node.layout.log_dirs}:
                shutil.copytree(one, folder / "kept" / one.relative_to(cluster.state_dir))
        yield Lost(lagged, dynamic, folder / "kept")


def make_dynamic(cluster: Cluster, *controllers: Node) -> None:
    """Format the controllers with `--initial-controllers`, and name bootstrap servers to all."""
    controllers = controllers or cluster.controllers
    servers = ",".join(str(node.address(Listener.CONTROLLER)) for node in controllers)
    for node in cluster.nodes:
        quorum = {"controller.quorum.voters": "", "controller.quorum.bootstrap.servers": servers}
        cluster.configure(node.id, quorum)
    voters = ",".join(
        f"{node.id}@{node.address(Listener.CONTROLLER)}:{kafka_uuid()}" for node in controllers
    )
    for node in controllers:
        config = cluster.state_dir / f"format-{node.id}.properties"
        config.write_text(render(server_properties(cluster.layout, node.layout)))
        arguments = ("format", "-t", cluster.layout.cluster_id, "-c", str(config))
        run_tool(
            cluster.kafka,
            "kafka.tools.StorageTool",
            (*arguments, "--initial-controllers", voters),
        ).check()


def secure_controllers(cluster: Cluster) -> None:
    """SASL_SSL to controllers and between them, with the certificates of a secured lab."""
    folder, own = security_folder(cluster.layout), "listener.name.controller"
    password = lab_password(SUPER_USER)
    login = f'username="{SUPER_USER}" password="{password}" user_{SUPER_USER}="{password}"'
    settings = {
        "listener.security.protocol.map": "CLIENT:SASL_SSL,LAB:PLAINTEXT,CONTROLLER:SASL_SSL",
        "sasl.mechanism.controller.protocol": PLAIN,
        "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
        f"{own}.sasl.enabled.mechanisms": PLAIN,
        f"{own}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required {login};",
    }
    for store, file in (("keystore", "broker.pem"), ("truststore", "ca.pem")):
        settings |= {f"{own}.ssl.{store}.type": "PEM"}
        settings |= {f"{own}.ssl.{store}.location": str(folder / file)}
    for node in cluster.nodes:
        cluster.configure(node.id, settings)


@pytest.fixture
def lost(killed: Lost) -> Iterator[Lost]:
    killed.restore()
    yield killed
    for node in killed.cluster.nodes:
        if node.running:
            node.kill()


def planned(
    lost: Lost, folder: Path, *nodes: Node, voter: object = 101, more: tuple[str, ...] = ()
) -> Path:
    """A plan of what is left on the disks of *nodes*."""
    folder.mkdir(exist_ok=True)
    plan = folder / "plan.json"
    asked = ("--voter", voter, "--out", plan, *more)
    ended = breakglass("quorum", "plan", *addresses(*nodes), *asked)
    assert ended.code == 0, ended.err
    return plan


def prepared(plan: Path, out: Path, *more: object) -> Ended:
    consents = [
        part for phrase in json.loads(plan.read_text())["consent"] for part in ("--consent", phrase)
    ]
    asked = ("--out", out, "--manager", "process", "--write")
    return breakglass("quorum", "prepare", plan, *asked, *consents, *more)


@dataclass
class Step:
    """A numbered step of what was printed."""

    title: str
    blocks: list[tuple[str, list[str]]] = field(default_factory=list)
    """The line above, and the lines that are set in."""

    @property
    def node(self) -> int:
        found = re.search(r"\b[bc](\d+)\b", self.title)
        assert found
        return int(found[1])


def steps_in(text: str) -> list[Step]:
    steps: list[Step] = []
    for line in text.splitlines():
        if re.match(r"\d+\. ", line):
            steps.append(Step(line, [(line, [])]))
        elif steps and line.startswith("    "):
            steps[-1].blocks[-1][1].append(line[4:])
        elif steps and line.strip():
            steps[-1].blocks.append((line.strip(), []))
    return steps


def follow(
    lost: Lost,
    text: str,
    *,
    all_settings: bool = False,
    machine: Node | None = None,
    strays: str = "none are left",
) -> list[int]:
    """Do what *text* says, step by step; returns the nodes in the order of their starts.

    A node that the lab does not know runs on *machine*.
    """
    cluster, started = lost.cluster, []
    for step in steps_in(text):
        if "Do not start" in step.title:
            continue
        known = step.node in {one.id for one in cluster.nodes}
        node = machine if machine and not known else cluster.node(step.node)
        shell = ""
        for above, lines in step.blocks:
            if above == step.title and lines:
                place = rf"/METADATA_LOG_DIR_OF_[BC]{step.node}\b"
                shell = re.sub(place, str(metadata_dir_of(node)), "\n".join(lines))
                bash(shell)
            elif above.startswith("In its configuration") and (
                all_settings or "unless" not in above
            ):
                settings = dict(line.split("=", 1) for line in lines if "=" in line)
                if any("out of listeners" in line for line in lines):
                    given = node.layout.overrides["listeners"]
                    settings["listeners"] = given.rpartition(",CONTROLLER:")[0]
                cluster.configure(node.id, settings)
            elif above == "Start it, then look:":
                node.start()
                started.append(node.id)
                look = "\n".join([*shell.splitlines()[:3], *lines[1:]])
                wait_for(lost, node, step.blocks[-1][0], look, strays)
    return started


def wait_for(lost: Lost, node: Node, then: str, look: str, strays: str) -> None:
    leader = re.search(r"leaderId (\d+) and a leaderEpoch above (\d+)", then)
    if leader is None:
        names = [Path(line).name for line in bash(look).splitlines()]
        assert [name for name in names if not name.startswith(strays)] == []
        return

    def leads() -> bool:
        node.require_running()
        shown = re.search(r'"leaderId":(-?\d+),"leaderEpoch":(\d+)', bash(look))
        assert shown
        return shown[1] == leader[1] and int(shown[2]) > int(leader[2])

    lost.cluster.wait_until(leads, "the new voter to lead")


def bash(script: str) -> str:
    done = subprocess.run(
        ["bash", "-euc", script], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode in (0, 1), done.stderr
    return done.stdout


def values_of(cluster: Cluster, topic: str, partition: int) -> list[int]:
    """Every record that is there, as a client without a group reads it."""
    consumer = Consumer(
        {
            "bootstrap.servers": cluster.lab_bootstrap,
            "group.id": "reads-all",
            "enable.auto.commit": False,
            "enable.partition.eof": True,
        }
    )
    try:
        consumer.assign([Position(topic, partition, 0)])
        found: list[int] = []
        while message := consumer.poll(60):
            if message.error():
                return found
            found.append(int(message.value() or b""))
        raise AssertionError(f"{topic}-{partition} was not read to its end")
    finally:
        consumer.close()


def ready(lost: Lost, *, strays: str = "none are left") -> None:
    cluster = lost.cluster
    cluster.wait_ready()
    for topic, count in ((OLD, 2), (NEW, 2), (GROWN, 2)):
        for number in range(count):
            cluster.wait_until(
                lambda topic=topic, number=number: (  # type: ignore[misc]
                    set(cluster.partition(topic, number).isr) == {1, 2, 3}
                ),
                f"the ISR of {topic}-{number}",
            )
    folders = [folder for node in cluster.brokers for folder in node.layout.log_dirs]
    found = [path.name for folder in folders for path in folder.glob("*-stray")]
    assert [name for name in found if not name.startswith(strays)] == []


def records_are_back(lost: Lost) -> None:
    cluster = lost.cluster
    for number in (0, 1):
        assert values_of(cluster, OLD, number) == WRITTEN
        assert values_of(cluster, NEW, number) == list(range(10))
    # A producer that got an id that is in the log would be answered, and its records dropped.
    produce(cluster, OLD, 2, 5)
    for number in (0, 1):
        assert values_of(cluster, OLD, number) == [*WRITTEN, *range(5)]


def test_q10_q14_q16_the_cluster_comes_back_from_a_brokers_copy_with_everything(
    lost: Lost, tmp_path: Path
) -> None:
    cluster = lost.cluster
    for node in cluster.controllers:
        shutil.rmtree(metadata_dir_of(node))
    plan = planned(lost, tmp_path, *cluster.brokers)
    document = json.loads(plan.read_text())
    assert document["dynamic"] == lost.dynamic
    assert document["lost"]["records"] == 0
    assert not any(one for name, one in document["lost"].items() if name != "records")
    assert document["missing"] == ["c101", "c102", "c103"]
    assert document["consent"] == ["controller 101 lose 0 and abandon c101, c102, c103"]
    out = tmp_path / "promoted"
    ended = prepared(plan, out)
    assert ended.code == 0, ended.err
    promoted = dump(cluster, out / "__cluster_metadata-0")
    (source,) = {
        (one["path"], one["log_end"])
        for one in document["inputs"]
        if f"log:{one['path']}" == document["request"]["copy"]
    }
    before = dump(cluster, Path(source[0]))
    assert promoted.batches[: len(before.batches)] == before.batches
    assert {epoch for _, _, epoch, _ in promoted.batches[len(before.batches) :]} == {
        document["epoch"]
    }
    assert promoted.types_from(source[1])[-1] == "PRODUCER_IDS_RECORD"

    # The brokers' lists of controllers stay as they are: the new voter is in them.
    started = follow(lost, ended.out)
    assert started[0] == 101
    ready(lost)
    watched = breakglass("quorum", "watch", plan, "--bootstrap-server", cluster.lab_bootstrap)
    assert (watched.code, watched.out[:19]) == (0, "The cluster is back"), watched.err
    records_are_back(lost)
    settings_are_back(cluster)
    if not lost.dynamic:
        grow_static(cluster)


def retention(cluster: Cluster) -> str:
    admin = AdminClient({"bootstrap.servers": cluster.lab_bootstrap})
    resource = ConfigResource(ConfigResource.Type.TOPIC, OLD)
    (configs,) = (one.result(60) for one in admin.describe_configs([resource]).values())
    return str(configs["retention.ms"].value)


def settings_are_back(cluster: Cluster) -> None:
    admin = AdminClient({"bootstrap.servers": cluster.lab_bootstrap})
    topics = admin.list_topics(timeout=60).topics
    assert DELETED not in topics
    assert retention(cluster) == "777000"
    whose = (PRINCIPAL, "*", AclOperation.ANY, AclPermissionType.ANY)
    anything = AclBindingFilter(ResourceType.TOPIC, OLD, ResourcePatternType.LITERAL, *whose)
    assert len(admin.describe_acls(anything).result(60)) == 1
    users: Any = admin.describe_user_scram_credentials([USER])
    assert len(users[USER].result(60).scram_credential_infos) == 1
    quota = run_tool(
        cluster.kafka,
        "kafka.admin.ConfigCommand",
        (
            *("--bootstrap-server", cluster.lab_bootstrap, "--describe"),
            *("--entity-type", "users", "--entity-name", USER),
        ),
    ).check()
    assert "producer_byte_rate=4096" in quota.stdout


def test_q11_q12_q15_a_lagging_copy_is_mended_by_the_data_folders(
    lost: Lost, tmp_path: Path
) -> None:
    cluster, lagging = lost.cluster, lost.lagged.lagging
    for node in lost.lagged.best_controllers:
        shutil.rmtree(metadata_dir_of(node))
    for node in cluster.brokers:
        shutil.rmtree(copy_of(node))
    # A new id, on a machine whose disk is empty.
    machine = lost.lagged.best_controllers[0]
    address = f"127.0.0.1:{machine.layout.ports[Listener.CONTROLLER]}"
    plan = planned(lost, tmp_path, *cluster.brokers, lagging, voter=f"104@{address}")
    document = json.loads(plan.read_text())
    mended = {line.partition(":")[0] for line in document["mended"]}
    assert {f"{OLD}-0", f"{OLD}-1", f"{NEW}-0", f"{NEW}-1", f"{GROWN}-1"} <= mended
    assert document["lost"]["strays"] == []
    out = tmp_path / "promoted"
    ended = prepared(plan, out)
    assert ended.code == 0, ended.err
    started = follow(lost, ended.out, all_settings=True, machine=machine)
    assert started[0] == machine.id
    ready(lost)
    records_are_back(lost)
    # It was deleted after the copy ended: it comes back, and the plan said so.
    assert any(DELETED in line and "come back empty" in line for line in document["unknown"])
    assert DELETED in AdminClient({"bootstrap.servers": cluster.lab_bootstrap}).list_topics().topics


def test_q13_q15_an_older_copy_loses_what_the_phrase_says_and_the_way_back_brings_it_back(
    lost: Lost, tmp_path: Path
) -> None:
    """The brokers have better copies, with later snapshots: all of it is moved aside, and kept."""
    cluster, lagging = lost.cluster, lost.lagged.lagging
    if not lost.dynamic:
        by_hand(lost)
    nodes = (*cluster.brokers, *cluster.controllers)
    older = ("--copy", f"log:{copy_of(lagging)}")
    plan = planned(lost, tmp_path, *nodes, voter=lagging.id, more=older)
    document = json.loads(plan.read_text())
    ends = {one["path"]: one["log_end"] for one in document["inputs"] if "log_end" in one}
    count = max(ends.values()) - ends[str(copy_of(lagging))]
    assert document["consent"][0] == f"controller {lagging.id} lose {count}"
    named = f"settings: topic {OLD}: retention.ms unset -> 777000"
    assert named in document["lost"]["changes"]
    actions = {one["name"]: one["action"] for one in document["nodes"] if one["broker"]}
    assert set(actions.values()) == {"replace"}
    ended = prepared(plan, tmp_path / "promoted")
    assert ended.code == 0, ended.err
    follow(lost, ended.out)
    ready(lost)
    assert [values_of(cluster, OLD, number) for number in (0, 1)] == [WRITTEN] * 2
    assert retention(cluster) != "777000"

    way_back(lost, document["digest"])
    again = planned(lost, tmp_path / "again", *nodes, voter=lagging.id)
    document = json.loads(again.read_text())
    assert document["lost"]["records"] == 0
    # The old copy brought a deleted topic back, as folders without records.
    deleted = re.compile(rf"/{DELETED}-[01]: the topic was deleted$")
    assert len(document["lost"]["strays"]) == 6
    strays = document["lost"]["strays"]
    assert all(deleted.search(f"{one['path']}: {one['why']}") for one in strays)
    ended = prepared(again, tmp_path / "again" / "promoted")
    assert ended.code == 0, ended.err
    follow(lost, ended.out, strays=DELETED)
    ready(lost, strays=DELETED)
    records_are_back(lost)
    settings_are_back(cluster)


def by_hand(lost: Lost) -> None:
    """Start the older copy and a broker as they are: the broker's better copy is truncated, and
    the snapshots of what is gone stay."""
    cluster, lagging, broker = lost.cluster, lost.lagged.lagging, lost.cluster.broker(2)
    alone = f"{lagging.id}@{lagging.address(Listener.CONTROLLER)}"
    cluster.configure(lagging.id, {"controller.quorum.voters": alone})
    end = dump(cluster, copy_of(lagging)).end
    past = [one for one in copy_of(broker).glob("*.checkpoint") if int(one.name[:20]) > end]
    segments = sorted(copy_of(broker).glob("*.log"))
    before = [one.read_bytes() for one in segments]
    for node in (lagging, broker):
        node.start()
    cluster.wait_until(
        lambda: (
            not all(
                one.exists() and one.read_bytes().startswith(content)
                for one, content in zip(segments, before, strict=True)
            )
        ),
        "the truncation",
    )
    assert past
    assert all(one.exists() for one in past)
    lost.restore()


def way_back(lost: Lost, digest: str) -> None:
    """Stop every node and move back what was moved aside, as the last line says."""
    for node in lost.cluster.nodes:
        if node.running:
            node.kill()
    # The last thread of a killed process holds its lock for a moment.
    dirs = [metadata_dir_of(node) for node in lost.cluster.nodes]
    lost.cluster.wait_until(
        lambda: all(running_broker(one) is None for one in dirs), "the locks of the processes"
    )
    for node in lost.cluster.nodes:
        folder = metadata_dir_of(node)
        aside = folder.with_name(f"{folder.name}.aside-{digest[:8]}")
        if aside.exists():
            shutil.rmtree(copy_of(node))
            for one in aside.iterdir():
                one.rename(folder / one.name)


def test_q11_q15_q16_a_topic_that_was_made_again_comes_back_though_its_copies_are_lost(
    tmp_path: Path,
) -> None:
    """b1 and b3 lost the disks of their metadata; b2 and c103 know the deleted topic alone."""
    options: LabOptions = {"controllers": 3, "overrides": OVERRIDES, "tethered": True}
    with Cluster.plan(tmp_path / "lab", **options) as cluster:
        cluster.start()
        create_topic(cluster, OLD, EVERYWHERE[:1])
        configure_topic(cluster, OLD, {"retention.ms": "777000"})
        produce(cluster, OLD, 1, 20)
        cluster.wait_until(lambda: set(cluster.partition(OLD, 0).isr) == {1, 2, 3}, "every replica")
        lagging = cluster.node(103)
        for node in (cluster.broker(2), lagging):
            node.kill()
        admin = AdminClient({"bootstrap.servers": cluster.lab_bootstrap})
        admin.delete_topics([OLD])[OLD].result(60)
        cluster.wait_until(
            lambda: OLD not in admin.list_topics(timeout=60).topics, "the topic to be deleted"
        )
        create_topic(cluster, OLD, [(1, 3)])
        produce(cluster, OLD, 1, 15)
        for node in cluster.nodes:
            if node.running:
                node.kill()
        for node in (*cluster.controllers[:2], cluster.broker(1), cluster.broker(3)):
            shutil.rmtree(metadata_dir_of(node))
        named = [one for one in addresses(*cluster.brokers, lagging) if Path(one[4:]).exists()]
        plan = tmp_path / "plan.json"
        ended = breakglass("quorum", "plan", *named, "--voter", 101, "--out", plan)
        assert ended.code == 0, ended.err
        document = json.loads(plan.read_text())
        assert f"replace topic {OLD}" in document["consent"]
        assert len(document["lost"]["strays"]) == 1
        ended = prepared(plan, tmp_path / "promoted")
        assert ended.code == 0, ended.err
        follow(Lost(Lagged(cluster, lagging), False, tmp_path), ended.out, strays=OLD)
        cluster.wait_ready()
        cluster.wait_until(lambda: set(cluster.partition(OLD, 0).isr) == {1, 3}, "the ISR")
        assert values_of(cluster, OLD, 0) == [*range(15)]
        assert retention(cluster) == "777000"
        watch = ("quorum", "watch", plan, "--bootstrap-server", cluster.lab_bootstrap)
        watched = breakglass(*watch)
        assert watched.code == 0, watched.out
        # The records are lost, and applications write on: the log is longer than it was.
        for node in (cluster.broker(1), cluster.broker(3)):
            node.kill()
            for folder in node.layout.log_dirs:
                shutil.rmtree(folder / f"{OLD}-0", ignore_errors=True)
        for node in (cluster.broker(1), cluster.broker(3)):
            node.start()
        cluster.wait_ready()
        cluster.wait_until(lambda: set(cluster.partition(OLD, 0).isr) == {1, 3}, "the ISR")
        produce(cluster, OLD, 1, 40)
        watched = breakglass(*watch)
        assert (watched.code, watched.out.startswith(f"{OLD}-0 has the records")) == (1, True)


def make_combined(cluster: Cluster, *, dynamic: bool) -> None:
    """Have every broker be a controller as well, with the metadata log among its partitions."""
    ports = iter(free_ports(len(cluster.brokers), besides=cluster.layout.ports))
    brokers = {
        one.id: replace(one, ports={**one.ports, Listener.CONTROLLER: next(ports)})
        for one in cluster.layout.brokers
    }
    nodes = tuple(brokers.get(one.id, one) for one in cluster.layout.nodes)
    cluster.layout = replace(cluster.layout, nodes=nodes)
    listed = ",".join(f"{one.id}@{one.address(Listener.CONTROLLER)}" for one in cluster.brokers)
    for node in cluster.brokers:
        own = {
            "process.roles": "broker,controller",
            "listeners": ",".join(f"{one}://{node.address(one)}" for one in Listener),
            "metadata.log.dir": str(node.layout.log_dirs[0]),
            "controller.quorum.voters": listed,
            "controller.quorum.fetch.timeout.ms": "2000",
        }
        cluster.configure(node.id, own)
        if not dynamic:
            format_controller(
                metadata_dir_of(node),
                cluster.kafka,
                cluster_id=cluster.layout.cluster_id,
                node_id=node.id,
            )
    if dynamic:
        make_dynamic(cluster, *cluster.brokers)


def transact(cluster: Cluster, value: int, *, commit: bool = True) -> None:
    """Fence the producer before, and write a record in a transaction, which may stay open."""
    producer = transactional(cluster, "payments")
    producer.begin_transaction()
    producer.produce(GROWN, b"%d" % value, partition=0)
    assert producer.flush(60) == 0
    if commit:
        producer.commit_transaction(60)


def shared(cluster: Cluster, count: int) -> list[int]:
    """So many records that a share group takes and acknowledges."""
    asked = ("--bootstrap-server", cluster.lab_bootstrap, "--topic", OLD, "--group", "sharing")
    ended = run_tool(
        cluster.kafka,
        "org.apache.kafka.tools.consumer.ConsoleShareConsumer",
        (*asked, "--max-messages", str(count), "--timeout-ms", "30000"),
    ).check()
    return [int(line) for line in ended.stdout.splitlines() if line.isdecimal()]


@pytest.mark.parametrize("dynamic", [False, True], ids=["static", "dynamic"])
def test_q10_q13_q16_combined_nodes_come_back_with_an_open_transaction_and_a_share_group(
    dynamic: bool, tmp_path: Path
) -> None:
    """Two of three lose their metadata; a controller of its own leads, and the three are brokers.

    Without the lines on `process.roles`, the nodes of a static quorum would not start.
    """
    options: LabOptions = {"overrides": OVERRIDES, "tethered": True, "log_dirs": 2}
    with Cluster.plan(tmp_path / "lab", **options) as cluster:
        make_combined(cluster, dynamic=dynamic)
        for node in cluster.brokers:
            node.start()
        cluster.wait_ready()
        make_topics(cluster)
        transact(cluster, 1)
        configs.set_config(
            cluster, configs.ConfigResource.GROUP, "sharing", "share.auto.offset.reset", "earliest"
        )
        before = shared(cluster, 20)
        change_everything(cluster)
        transact(cluster, 2, commit=False)
        kill_everything(cluster)
        for node in cluster.brokers[:2]:
            shutil.rmtree(copy_of(node))

        lost = Lost(Lagged(cluster, cluster.broker(1)), dynamic, tmp_path)
        voter = f"101@{cluster.node(101).address()}"
        plan = planned(lost, tmp_path, *cluster.brokers, voter=voter)
        consent = "controller 101 lose 0 and abandon b1, b2"
        assert json.loads(plan.read_text())["consent"] == [consent]
        ended = prepared(plan, tmp_path / "promoted")
        assert ended.code == 0, ended.err
        assert ("process.roles=broker\n" in ended.out) == (not dynamic)
        assert follow(lost, ended.out, all_settings=True)[0] == 101
        ready(lost)
        rest = shared(cluster, 2 * len(WRITTEN) - len(before))
        assert sorted(before + rest) == sorted(WRITTEN * 2)
        transact(cluster, 3)
        assert values_of(cluster, GROWN, 0) == [1, 3]
        records_are_back(lost)
        settings_are_back(cluster)


def test_q13_brokers_that_run_go_on_and_the_quorum_grows_again(tmp_path: Path) -> None:
    options: LabOptions = {"controllers": 3, "overrides": OVERRIDES, "tethered": True}
    with Cluster.plan(tmp_path / "lab", **options) as cluster:
        make_dynamic(cluster)
        cluster.start()
        create_topic(cluster, OLD, EVERYWHERE)
        produce(cluster, OLD, 2, 10)
        for node in cluster.controllers:
            node.kill()
            if node.id != 103:
                shutil.rmtree(metadata_dir_of(node))
        # A broker that has no block of producer ids left gets none without a controller.
        produce(cluster, OLD, 2, 10, idempotent=False)
        pids = [node.pid for node in cluster.brokers]
        lost = Lost(Lagged(cluster, cluster.node(103)), True, tmp_path)

        plan = planned(lost, tmp_path, *cluster.brokers, cluster.node(103), voter=103)
        document = json.loads(plan.read_text())
        actions = {one["name"]: one["action"] for one in document["nodes"]}
        running = "leave running"
        assert actions == {
            "c103": "promote",
            "b1": running,
            "b2": running,
            "b3": running,
            "c101": "do not start",
            "c102": "do not start",
        }
        ended = prepared(plan, tmp_path / "promoted")
        assert ended.code == 0, ended.err
        assert follow(lost, ended.out) == [103]
        produce(cluster, OLD, 2, 10)
        create_topic(cluster, NEW, EVERYWHERE)
        assert [node.pid for node in cluster.brokers] == pids
        for number in (0, 1):
            assert values_of(cluster, OLD, number) == [*range(10)] * 3
            assert set(cluster.partition(OLD, number).isr) == {1, 2, 3}
        grow(cluster)


def grow(cluster: Cluster) -> None:
    """Add the two other controllers, with empty disks, as docs/quorum.md has it."""
    for number, node in enumerate(cluster.controllers[:2], 2):
        leader = f"127.0.0.1:{cluster.node(103).layout.ports[Listener.CONTROLLER]}"
        cluster.configure(node.id, {"controller.quorum.bootstrap.servers": leader})
        config = cluster.state_dir / f"grow-{node.id}.properties"
        config.write_text(render(server_properties(cluster.layout, node.layout)))
        formatted = ("format", "-t", cluster.layout.cluster_id, "-c", str(config))
        storage = "kafka.tools.StorageTool"
        run_tool(cluster.kafka, storage, (*formatted, "--no-initial-controllers")).check()
        node.start()
        cluster.wait_until(partial(follows, cluster, node), f"controller {node.id} to follow")
        quorum_tool(cluster, "--command-config", str(config), "add-controller")
        assert len(voters_of(cluster)) == number


def quorum_tool(cluster: Cluster, *arguments: str) -> str:
    servers = ("--bootstrap-server", cluster.lab_bootstrap)
    tool = "org.apache.kafka.tools.MetadataQuorumCommand"
    return run_tool(cluster.kafka, tool, (*servers, *arguments)).check().stdout


def follows(cluster: Cluster, node: Node) -> bool:
    return f"\n{node.id}" in quorum_tool(cluster, "describe", "--replication")


def voters_of(cluster: Cluster) -> list[object]:
    (voters,) = re.findall(r"CurrentVoters:\s+(.+)", quorum_tool(cluster, "describe", "--status"))
    found: list[object] = json.loads(voters)
    return found


def grow_static(cluster: Cluster) -> None:
    """Give two other controllers copies of the new one's folder, as docs/quorum.md has it."""
    first, *others = cluster.controllers
    first.kill()
    listed = ",".join(
        f"{node.id}@127.0.0.1:{node.layout.ports[Listener.CONTROLLER]}"
        for node in cluster.controllers
    )
    for node in others:
        shutil.copytree(metadata_dir_of(first), metadata_dir_of(node))
        meta = metadata_dir_of(node) / "meta.properties"
        text = re.sub(r"node\.id=\d+", f"node.id={node.id}", meta.read_text())
        meta.write_text(re.sub(r"directory\.id=.*", f"directory.id={kafka_uuid()}", text))
        state = copy_of(node) / "quorum-state"
        left = {**json.loads(state.read_text()), "leaderId": -1, "votedId": -1}
        state.write_text(json.dumps(left))
    for node in cluster.controllers:
        cluster.configure(node.id, {"controller.quorum.voters": listed})
        node.start()
    cluster.wait_ready()
    produce(cluster, OLD, 2, 5)
    assert len(voters_of(cluster)) == 3
    for node in cluster.controllers:
        cluster.wait_until(partial(follows, cluster, node), f"controller {node.id} to follow")
