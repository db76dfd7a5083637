"""The server.properties of each node, and the certificates and users of a secured lab.

Intervals are short enough for damage to happen in seconds.
"""

from __future__ import annotations

import datetime
import ipaddress
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.lab.layout import (
    LOOPBACK,
    Address,
    ClusterLayout,
    Listener,
    NodeLayout,
    NodeRole,
)

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


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
        own = {name: node.address(name) for name in (Listener.CLIENT, Listener.LAB)}
        told = {**own, Listener.CLIENT: node.advertised or own[Listener.CLIENT]}
        role = {
            **CALM,
            "listeners": _listeners(own),
            "advertised.listeners": _listeners(told),
            "inter.broker.listener.name": Listener.LAB.value,
            **({"broker.rack": node.rack} if node.rack else {}),
        }
    else:
        role = {"listeners": _listeners({Listener.CONTROLLER: node.address(Listener.CONTROLLER)})}
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
    brokers = len(cluster.brokers)
    factor = str(min(3, brokers))
    return {
        **QUICK,
        **PREDICTABLE,
        **SMALL,
        "default.replication.factor": factor,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": "1",
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": "1",
        "node.id": str(node.id),
        "process.roles": node.role.value,
        **_quorum(links, dynamic=bool(cluster.voters)),
        "controller.listener.names": Listener.CONTROLLER.value,
        "listener.security.protocol.map": ",".join(
            f"{name}:{protocol}" for name, protocol in protocols.items()
        ),
        "log.dirs": ",".join(str(path) for path in node.log_dirs),
        "metadata.log.dir": str(node.metadata_dir),
        **role,
        **(security or {}),
        **cluster.overrides,
        **node.overrides,
    }


def _quorum(controllers: Mapping[int, Address], *, dynamic: bool) -> dict[str, str]:
    """How a node finds the quorum: a dynamic one has its voters in the metadata log."""
    if dynamic:
        servers = ",".join(str(address) for _, address in sorted(controllers.items()))
        return {"controller.quorum.bootstrap.servers": servers}
    voters = ",".join(f"{voter}@{address}" for voter, address in sorted(controllers.items()))
    return {"controller.quorum.voters": voters}


def render(properties: Mapping[str, str]) -> str:
    """Java properties text, sorted, with backslashes and line breaks escaped."""
    lines = [f"{key}={_escaped(value)}" for key, value in sorted(properties.items())]
    return "\n".join(lines) + "\n"


def _escaped(value: str) -> str:
    return value.replace("\\", "\\\\").replace("\n", "\\n")


def _listeners(addresses: Mapping[Listener, object]) -> str:
    return ",".join(f"{name}://{address}" for name, address in addresses.items())


VALID_DAYS = 30


@dataclass(frozen=True, slots=True)
class Identity:
    """A key with its certificate."""

    key: EllipticCurvePrivateKey
    certificate: x509.Certificate


def write_certificates(folder: Path, clients: tuple[str, ...]) -> None:
    """Fill *folder* with what brokers and clients need.

    ``ca.pem`` to trust, ``broker.pem`` for the brokers, and ``NAME.pem`` for each of *clients*.
    The file of an identity holds key and certificate.
    """
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    folder.mkdir(parents=True, exist_ok=True)
    authority = _identity("Breakglass lab", None)
    _write(folder / "ca.pem", _certificate_pem(authority))
    for name in ("broker", *clients):
        identity = _identity(name, authority)
        _write(
            folder / f"{name}.pem",
            identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
            + _certificate_pem(identity),
        )


def _identity(name: str, issuer: Identity | None) -> Identity:
    from cryptography import x509
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.asymmetric import ec
    from cryptography.x509.oid import NameOID

    key = ec.generate_private_key(ec.SECP256R1())
    subject = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, name)])
    now = datetime.datetime.now(datetime.UTC)
    hosts = [x509.IPAddress(ipaddress.ip_address(LOOPBACK)), x509.DNSName("localhost")]
    builder = (
        x509.CertificateBuilder()
        .subject_name(subject)
        .issuer_name(issuer.certificate.subject if issuer else subject)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=VALID_DAYS))
        .add_extension(x509.BasicConstraints(ca=issuer is None, path_length=None), critical=True)
        .add_extension(x509.SubjectAlternativeName(hosts), critical=False)
    )
    signed = builder.sign(issuer.key if issuer else key, hashes.SHA256())
    return Identity(key, signed)


def _write(path: Path, content: bytes) -> None:
    path.touch(mode=0o600)
    path.write_bytes(content)


def _certificate_pem(identity: Identity) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding

    return identity.certificate.public_bytes(Encoding.PEM)


SUPER_USER = "admin"
OPERATOR = "operator"
PLAIN_USERS = (SUPER_USER, OPERATOR)
"""Known by PLAIN from the start, and by a client certificate of the same name."""
PLAIN = "PLAIN"
PLAIN_MODULE = "org.apache.kafka.common.security.plain.PlainLoginModule"


def security_folder(layout: ClusterLayout) -> Path:
    """Where the certificates of the lab are."""
    return layout.state_dir / "security"


def lab_password(user: str) -> str:
    """The password that every user of a lab has; loopback guards it."""
    return f"{user}-password"


def make_certificates(layout: ClusterLayout) -> None:
    """Write the certificates of brokers and users, unless they are there."""
    folder = security_folder(layout)
    if not (folder / "ca.pem").exists():
        write_certificates(folder, PLAIN_USERS)


def security_settings(layout: ClusterLayout, node: NodeLayout) -> dict[str, str]:
    """The authorization, TLS and SASL settings of *node*; empty when the lab is not guarded."""
    if not layout.secured:
        return {}
    authorizer = {
        "authorizer.class.name": "org.apache.kafka.metadata.authorizer.StandardAuthorizer",
        "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
        "allow.everyone.if.no.acl.found": "false",
    }
    return authorizer | (_listener_settings(layout) if node.role is NodeRole.BROKER else {})


def _listener_settings(layout: ClusterLayout) -> dict[str, str]:
    folder = security_folder(layout)
    own = f"listener.name.{Listener.CLIENT.value.lower()}"
    known = "".join(f' user_{user}="{lab_password(user)}"' for user in PLAIN_USERS)
    return {
        f"{own}.plain.sasl.jaas.config": f"{PLAIN_MODULE} required{known};",
        f"{own}.sasl.enabled.mechanisms": PLAIN,
        f"{own}.ssl.keystore.type": "PEM",
        f"{own}.ssl.keystore.location": str(folder / "broker.pem"),
        f"{own}.ssl.truststore.type": "PEM",
        f"{own}.ssl.truststore.location": str(folder / "ca.pem"),
        f"{own}.ssl.client.auth": "requested",
    }
