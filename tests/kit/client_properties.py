"""Files of client properties of a secured lab."""

import os
from pathlib import Path

from breakglass.services.lab.layout import ClusterLayout
from breakglass.services.lab.properties import (
    PLAIN,
    PLAIN_MODULE,
    lab_password,
    render,
    security_folder,
)


def client_properties(
    layout: ClusterLayout, user: str, *, certificate: bool = False
) -> dict[str, str]:
    """Kafka's own client settings for *user*, with its own certificate if it is to show it."""
    folder = security_folder(layout)
    paths = {"truststore": folder / "ca.pem"}
    if certificate:
        paths["keystore"] = folder / f"{user}.pem"
    login = f'username="{user}" password="{lab_password(user)}"'
    properties = {
        "security.protocol": "SASL_SSL",
        "sasl.mechanism": PLAIN,
        "sasl.jaas.config": f"{PLAIN_MODULE} required {login};",
    }
    for store, path in paths.items():
        properties |= {f"ssl.{store}.type": "PEM", f"ssl.{store}.location": str(path)}
    return properties


def write_client_properties(layout: ClusterLayout, user: str, *, certificate: bool = False) -> Path:
    """A file of `client_properties`, for ``--command-config`` of our and Kafka's own tools."""
    kind = "-certificate" if certificate else ""
    path = security_folder(layout) / f"{user}{kind}.properties"
    properties = client_properties(layout, user, certificate=certificate)
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    with os.fdopen(descriptor, "w", encoding="utf-8") as out:
        out.write(render(properties))
    return path
