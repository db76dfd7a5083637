"""The server.properties of each node: intervals short enough for damage to happen in seconds."""

from __future__ import annotations

from collections.abc import Mapping

from breakglass.services.lab.layout import ClusterLayout, Listener, NodeLayout, NodeRole

QUICK = {
    "replica.lag.time.max.ms": "3000",
    "broker.session.timeout.ms": "6000",
    "broker.heartbeat.interval.ms": "500",
    "replica.fetch.backoff.ms": "200",
    "log.retention.check.interval.ms": "10000",
    "log.initial.task.delay.ms": "1000",
    "log.cleaner.backoff.ms": "1000",
    "leader.imbalance.check.interval.seconds": "5",
    "group.initial.rebalance.delay.ms": "0",
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
"""Timers; Kafka's own defaults would make a scenario take minutes."""

PREDICTABLE = {
    "auto.create.topics.enable": "false",
    "unclean.leader.election.enable": "false",
    "min.insync.replicas": "1",
    "num.partitions": "1",
}

SMALL = {
    "num.network.threads": "1",
    "num.io.threads": "3",
    "background.threads": "2",
    "num.recovery.threads.per.data.dir": "1",
    "log.cleaner.threads": "1",
    "log.cleaner.dedupe.buffer.size": "2097152",
    "log.index.size.max.bytes": "131072",
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "4",
}
"""What keeps a node under 160 MB resident."""

CALM = {"controller.quorum.fetch.timeout.ms": "60000"}
"""A broker whose controllers do not answer keeps a processor busy from this time on: its raft
client asks again without a pause (KafkaRaftClient.pollFollowerAsObserver of 4.3). Before, it asks
every controller in turn, too."""


def server_properties(
    cluster: ClusterLayout, node: NodeLayout, security: Mapping[str, str] | None = None
) -> dict[str, str]:
    """The settings of *node*, later sources winning: defaults, *security*, cluster, node."""
    if node.role is NodeRole.BROKER:
        role = _broker(node)
    else:
        role = {"listeners": _listeners({Listener.CONTROLLER: node.address(Listener.CONTROLLER)})}
    return {
        **QUICK,
        **PREDICTABLE,
        **SMALL,
        **_replication(len(cluster.brokers)),
        **_common(cluster, node),
        **role,
        **(security or {}),
        **cluster.overrides,
        **node.overrides,
    }


def render(properties: Mapping[str, str]) -> str:
    """Java properties text, sorted, with backslashes and line breaks escaped."""
    lines = [f"{key}={_escaped(value)}" for key, value in sorted(properties.items())]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _common(cluster: ClusterLayout, node: NodeLayout) -> dict[str, str]:
    client = "SASL_SSL" if cluster.secured else "PLAINTEXT"
    protocols = {
        Listener.CLIENT: client,
        Listener.LAB: "PLAINTEXT",
        Listener.CONTROLLER: "PLAINTEXT",
    }
    links = {
        controller.id: controller.address(Listener.CONTROLLER) for controller in cluster.controllers
    }
    links.update(node.controller_links)
    return {
        "node.id": str(node.id),
        "process.roles": node.role.value,
        "controller.quorum.voters": ",".join(
            f"{voter}@{address}" for voter, address in sorted(links.items())
        ),
        "controller.listener.names": Listener.CONTROLLER.value,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "log.dirs": ",".join(str(path) for path in node.log_dirs),
        "metadata.log.dir": str(node.metadata_dir),
    }


def _broker(node: NodeLayout) -> dict[str, str]:
    own = {name: node.address(name) for name in (Listener.CLIENT, Listener.LAB)}
    told = {**own, Listener.CLIENT: node.advertised or own[Listener.CLIENT]}
    return {
        **CALM,
        "listeners": _listeners(own),
        "advertised.listeners": _listeners(told),
        "inter.broker.listener.name": Listener.LAB.value,
        **({"broker.rack": node.rack} if node.rack else {}),
    }


def _listeners(addresses: Mapping[Listener, object]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


def _replication(brokers: int) -> dict[str, str]:
    factor = str(min(3, brokers))
    return {
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": "1",
    }
