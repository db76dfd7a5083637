"""Files of client properties of a secured lab."""

from __future__ import annotations

import os
from pathlib import Path

from breakglass.services.lab.layout import ClusterLayout
from breakglass.services.lab.properties import render
from breakglass.services.lab.security import (
    MODULES,
    PLAIN,
    STORE_PASSWORD,
    lab_password,
    security_folder,
)


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
