"""A guarded lab: SASL_SSL on the clients' listeners, and what a client needs to come in.

Nodes among themselves and the lab's own requests go by plaintext listeners as ANONYMOUS, who
is a super user; so is ``admin``. Everybody else needs ACLs (services/lab/access.py).
"""

from __future__ import annotations

import os
from pathlib import Path

from breakglass.services.lab.certificates import STORE_PASSWORD, write_certificates
from breakglass.services.lab.layout import ClusterLayout, Listener, NodeLayout, NodeRole
from breakglass.services.lab.properties import render

SUPER_USER = "admin"
OPERATOR = "operator"
PLAIN_USERS = (SUPER_USER, OPERATOR, "reader", "stranger")
"""Known by PLAIN from the start, and by a client certificate of the same name."""
PLAIN = "PLAIN"
SCRAM = "SCRAM-SHA-512"
MECHANISMS = (PLAIN, "SCRAM-SHA-256", SCRAM)
MODULES = {
    PLAIN: "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    SCRAM: "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_AUTHORIZER = "org.apache.kafka.metadata.authorizer.StandardAuthorizer"


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
    """What *node* is told of authorization, TLS and SASL; nothing when the lab is open."""
    if not layout.secured:
        return {}
    authorizer = {
        "authorizer.class.name": _AUTHORIZER,
        "super.users": f"User:ANONYMOUS;User:{SUPER_USER}",
        "allow.everyone.if.no.acl.found": "false",
    }
    return authorizer | (_listener_settings(layout) if node.role is NodeRole.BROKER else {})


def client_properties(
    layout: ClusterLayout,
    user: str,
    *,
    mechanism: str = PLAIN,
    stores: str = "PEM",
    certificate: bool = False,
) -> dict[str, str]:
    """Kafka's own client settings for *user*.

    *stores* is PEM or PKCS12; *certificate* adds the user's own, which only `PLAIN_USERS` have.
    """
    folder, suffix = security_folder(layout), "pem" if stores == "PEM" else "p12"
    paths = {"truststore": folder / f"ca.{suffix}"}
    if certificate:
        paths["keystore"] = folder / f"{user}.{suffix}"
    login = f'username="{user}" password="{lab_password(user)}"'
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": mechanism,
        "sasl.jaas.config": f"{MODULES[mechanism]} required {login};",
    }
    for store, path in paths.items():
        properties |= {f"ssl.{store}.type": stores, f"ssl.{store}.location": str(path)}
        if stores != "PEM":
            properties[f"ssl.{store}.password"] = STORE_PASSWORD
    return properties


def write_client_properties(
    layout: ClusterLayout,
    user: str,
    *,
    mechanism: str = PLAIN,
    stores: str = "PEM",
    certificate: bool = False,
) -> Path:
    """A file of `client_properties`, for ``--command-config`` of our and Kafka's own tools."""
    kind = "-certificate" if certificate else ""
    path = security_folder(layout) / f"{user}-{mechanism}-{stores}{kind}.properties".lower()
    properties = client_properties(
        layout, user, mechanism=mechanism, stores=stores, certificate=certificate
    )
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(render(properties))
    return path


def _listener_settings(layout: ClusterLayout) -> dict[str, str]:
    folder = security_folder(layout)
    own = f"listener.name.{Listener.CLIENT.value.lower()}"
    known = "".join(f' user_{user}="{lab_password(user)}"' for user in PLAIN_USERS)
    scram = {
        f"{own}.{name.lower()}.sasl.jaas.config": f"{MODULES[name]} required;"
        for name in MECHANISMS
        if name != PLAIN
    }
    return {
        **scram,
        f"{own}.plain.sasl.jaas.config": f"{MODULES[PLAIN]} required{known};",
        f"{own}.sasl.enabled.mechanisms": ",".join(MECHANISMS),
        f"{own}.ssl.keystore.type": "PEM",
        f"{own}.ssl.keystore.location": str(folder / "broker.pem"),
        f"{own}.ssl.truststore.type": "PEM",
        f"{own}.ssl.truststore.location": str(folder / "ca.pem"),
        f"{own}.ssl.client.auth": "requested",
    }
