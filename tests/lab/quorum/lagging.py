"""A cluster that goes on while one of three controllers is down, and then loses every machine.

The lagging controller's copy lacks what was done since; `Lagged` has what was done, from the one
who did it, and what Kafka's own DumpLogSegments reads in the copies.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from confluent_kafka import Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.admin._acl import AclBinding, AclOperation, AclPermissionType
from confluent_kafka.admin._resource import ResourcePatternType, ResourceType
from confluent_kafka.admin._scram import (
    ScramCredentialInfo,
    ScramMechanism,
    UserScramCredentialUpsertion,
)
from confluent_kafka.cimpl import NewPartitions

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.distribution import run_tool
from breakglass.services.lab.node import Node
from breakglass.services.lab.topics import configure_topic, create_topic

OLD, NEW, DELETED, GROWN = "t-old", "t-new", "t-del", "t-exp"
PRINCIPAL, USER, PASSWORD = "User:payroll", "auditor", "a-secret-that-no-output-has"
LATE = 30
"""Records of each partition of t-old that the stopped broker 1 does not have."""
EVERYWHERE = [(1, 2, 3), (2, 3, 1)]
OVERRIDES = {
    "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
    "super.users": "User:ANONYMOUS",
    "metadata.log.max.record.bytes.between.snapshots": "3000",
    "replica.high.watermark.checkpoint.interval.ms": "500",
}
_OFFSET = re.compile(r"\boffset: (\d+)")
_BATCH = re.compile(
    r"baseOffset: (\d+) lastOffset: (\d+) .*partitionLeaderEpoch: (\d+) .* crc: (\d+)"
)


@dataclass
class Lagged:
    """The folders of the lost cluster, and the truth of them."""

    cluster: Cluster
    lagging: Node

    @property
    def best_controllers(self) -> list[Node]:
        return [node for node in self.cluster.controllers if node.id != self.lagging.id]

    def addresses(self) -> list[str]:
        """The folders of every node, metadata and data, as they are named to the command."""
        return addresses(*self.cluster.nodes)

    def dumped(self, node: Node) -> Dump:
        return dump(self.cluster, copy_of(node))


@dataclass(frozen=True)
class Dump:
    """What Kafka's own tool reads in the segments of a copy."""

    batches: list[tuple[int, int, int, int]]
    """First offset, last offset, epoch, CRC."""
    records: list[tuple[int, str, dict[str, Any]]]
    """Offset, type and fields."""

    @property
    def end(self) -> int:
        return self.batches[-1][1] + 1

    def types_from(self, offset: int) -> list[str]:
        return [kind for at, kind, _ in self.records if at >= offset]


def addresses(*nodes: Node) -> list[str]:
    """The folders of *nodes*, metadata and data, as they are named to the command."""
    folders = [
        folder for node in nodes for folder in (metadata_dir_of(node), *node.layout.log_dirs)
    ]
    return [f"log:{folder}" for folder in dict.fromkeys(folders)]


def metadata_dir_of(node: Node) -> Path:
    named = node.layout.overrides.get("metadata.log.dir")
    return Path(named) if named else node.layout.metadata_dir


def copy_of(node: Node) -> Path:
    return metadata_dir_of(node) / "__cluster_metadata-0"


def dump(cluster: Cluster, folder: Path) -> Dump:
    files = ",".join(map(str, sorted(folder.glob("*.log"))))
    four = not cluster.kafka.version.startswith("3.")
    said = run_tool(
        cluster.kafka,
        "org.apache.kafka.tools.DumpLogSegments" if four else "kafka.tools.DumpLogSegments",
        ("--cluster-metadata-decoder", "--files", files),
    ).check()
    batches, records = [], []
    for line in said.stdout.splitlines():
        batch, offset = _BATCH.search(line), _OFFSET.search(line)
        if batch:
            first, last, epoch, crc = map(int, batch.groups())
            batches.append((first, last, epoch, crc))
        elif offset and " payload: " in line:
            content = json.loads(line.partition(" payload: ")[2])
            records.append((int(offset[1]), content["type"], content["data"]))
    return Dump(batches, records)


def lose_everything(cluster: Cluster) -> Lagged:
    """Stop a controller that follows, change what there is to change, kill every process."""
    make_topics(cluster)
    leader = json.loads((copy_of(cluster.broker(1)) / "quorum-state").read_text())["leaderId"]
    lagged = Lagged(cluster, next(node for node in cluster.controllers if node.id != leader))
    lagged.lagging.kill()
    change_everything(cluster)
    kill_everything(cluster)
    return lagged


def make_topics(cluster: Cluster) -> None:
    for topic in (OLD, DELETED):
        create_topic(cluster, topic, EVERYWHERE)
    create_topic(cluster, GROWN, EVERYWHERE[:1])
    produce(cluster, OLD, 2, 25)


def change_everything(cluster: Cluster) -> None:
    """Change what there is to change; broker 1 does not have the last records."""
    admin = AdminClient({"bootstrap.servers": cluster.lab_bootstrap})
    create_topic(cluster, NEW, EVERYWHERE)
    _all(admin.delete_topics([DELETED]))
    _all(admin.create_partitions([NewPartitions(GROWN, 2, [[1, 2, 3]])]))
    configure_topic(cluster, OLD, {"retention.ms": "777000"})
    anywhere = (PRINCIPAL, "*", AclOperation.READ, AclPermissionType.ALLOW)
    _all(
        admin.create_acls(
            [AclBinding(ResourceType.TOPIC, OLD, ResourcePatternType.LITERAL, *anywhere)]
        )
    )
    salted = ScramCredentialInfo(ScramMechanism.SCRAM_SHA_256, 4096)
    upsertion = UserScramCredentialUpsertion(USER, salted, PASSWORD.encode())
    _all(admin.alter_user_scram_credentials([upsertion]))
    run_tool(
        cluster.kafka,
        "kafka.admin.ConfigCommand",
        (
            *("--bootstrap-server", cluster.lab_bootstrap, "--alter", "--entity-type", "users"),
            *("--entity-name", USER, "--add-config", "producer_byte_rate=4096"),
        ),
    ).check()
    for _ in range(12):
        # Each asks some broker for a producer id; every broker asks for a block of its own.
        produce(cluster, OLD, 2, 1)
    produce(cluster, NEW, 2, 10)
    cluster.broker(1).stop()
    cluster.wait_until(
        lambda: all(1 not in cluster.partition(OLD, one, via=2).isr for one in (0, 1)),
        "b1 to leave the ISR",
    )
    produce(cluster, OLD, 2, LATE)
    cluster.wait_until(lambda: _checkpointed(cluster.broker(2)), "the high watermark on disk")


def kill_everything(cluster: Cluster) -> None:
    for node in (*cluster.controllers, *cluster.brokers):
        if node.running:
            node.kill()


def _checkpointed(broker: Node) -> bool:
    """Whether the broker has noted the high watermark of all 25 + 12 + 30 records."""
    files = [folder / "replication-offset-checkpoint" for folder in broker.layout.log_dirs]
    lines = [line for file in files for line in file.read_text().splitlines()[2:]]
    marks = {tuple(line.split()[:2]): int(line.split()[2]) for line in lines}
    return all(marks.get((OLD, str(one)), 0) == 25 + 12 + LATE for one in (0, 1))


def produce(
    cluster: Cluster, topic: str, partitions: int, count: int, *, idempotent: bool = True
) -> None:
    producer = Producer(
        {
            "bootstrap.servers": cluster.lab_bootstrap,
            "enable.idempotence": idempotent,
            "acks": "all",
            "partitioner": "consistent",
        }
    )
    failed: list[object] = []
    for partition in range(partitions):
        for number in range(count):
            producer.produce(
                topic,
                b"%d" % number,
                partition=partition,
                on_delivery=lambda error, _: failed.append(error) if error else None,
            )
    assert producer.flush(60) == 0
    assert not failed


def _all(futures: dict[Any, Any]) -> None:
    for future in futures.values():
        future.result(60)
