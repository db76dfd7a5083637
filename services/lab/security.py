"""Guards a lab by SASL_SSL on the clients' listeners, with keys and certificates of its own CA.

Nodes and the lab's own requests use plaintext listeners as ANONYMOUS, which is a super user, like
``admin``. All other users need ACLs.
"""

from __future__ import annotations

import datetime
import ipaddress
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.lab.layout import LOOPBACK, ClusterLayout, Listener, NodeLayout, NodeRole

if TYPE_CHECKING:
    from cryptography import x509
    from cryptography.hazmat.primitives.asymmetric.ec import EllipticCurvePrivateKey


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
    folder.mkdir(parents=True, exist_ok=True)
    authority = _identity("Breakglass lab", None)
    _write(folder / "ca.pem", _certificate_pem(authority))
    for name in ("broker", *clients):
        identity = _identity(name, authority)
        _write(folder / f"{name}.pem", _key_pem(identity) + _certificate_pem(identity))


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


def _key_pem(identity: Identity) -> bytes:
    from cryptography.hazmat.primitives.serialization import Encoding, NoEncryption, PrivateFormat

    return identity.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())


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
