"""Reads a ksqlDB server's properties: its service, its backups, and how it reaches the cluster.

The server reads its command topic with Kafka's client keys, over which those with the prefix
``ksql.server.command.consumer.`` win (KsqlRestConfig); ``ksql.streams.`` is of its queries, and
fills in what is not given otherwise.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from difflib import get_close_matches
from pathlib import Path

from breakglass.services.connection.properties import Properties, Property, read_properties
from breakglass.services.connection.settings import has_effect
from breakglass.services.connection.sources import ClientFile, expand
from breakglass.services.metastore.settings import (
    ENABLE,
    LOCATION,
    MIN_INSYNC,
    PERSISTENT_PREFIX,
    REPLICAS,
    SERVICE_ID,
    MetastoreSettings,
    settings_of,
)

PREFIXES = ("ksql.streams.", "", "ksql.server.command.consumer.")
"""The prefixes of client keys; later ones win."""
TAKEN = (SERVICE_ID, LOCATION, *ENABLE, REPLICAS, MIN_INSYNC, PERSISTENT_PREFIX)
"""The keys of ksqlDB and of KLIP-31 that are read."""
ALIKE = 0.9


@dataclass(frozen=True, slots=True)
class KsqlServerConfig:
    """What a server's file says, as far as it is of use here."""

    settings: MetastoreSettings
    client_file: ClientFile
    remarks: tuple[str, ...]
    """Which keys have no effect; without their values."""


def read_server_config(path: Path, environ: Mapping[str, str] = os.environ) -> KsqlServerConfig:
    """Read the file at *path*; variables get their values where the file declares a provider.

    Raises: BadConnectionSettings for a file that cannot be read, and for contradictory or invalid
        settings of backups.
    """
    properties = read_properties(path)
    own = {key: properties[key] for key in properties if key in TAKEN or _declares(key)}
    settings = settings_of(expand(Properties(own, properties.name), environ))
    client = Properties(_client(properties), properties.name)
    return KsqlServerConfig(settings, ClientFile(path, client), tuple(_remarks(properties)))


def _declares(key: str) -> bool:
    return key.startswith("config.providers")


def _client(properties: Properties) -> dict[str, Property]:
    """The client's settings under Kafka's own keys."""
    found = {}
    for prefix in PREFIXES:
        for key, entry in properties.items():
            name = key.removeprefix(prefix)
            if key.startswith(prefix) and has_effect(name):
                found[name] = entry
    return found


def _remarks(properties: Properties) -> Iterator[str]:
    ignored = [key for key in properties if not (key in TAKEN or _connects(key))]
    if ignored:
        yield f"{properties.name}: keys without effect here: {', '.join(ignored)}."
    for key in ignored:
        close = get_close_matches(key, TAKEN, 1, ALIKE)
        if close:
            yield f"{properties[key].origin}: {key} is not known. Is {close[0]} meant?"


def _connects(key: str) -> bool:
    return any(
        key.startswith(prefix) and has_effect(key.removeprefix(prefix)) for prefix in PREFIXES
    )
