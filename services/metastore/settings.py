"""What ksql-server.properties says of backups: KLIP-31's two spellings, and what was shipped."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from breakglass.services.connection.properties import Properties, read_properties
from breakglass.services.errors import BadConnectionSettings
from breakglass.services.metastore.names import Style, command_topic

ENABLE = ("ksql.enable.metastore.backup", "ksql.metastore.enable.backup")
"""KLIP-31 names the setting in both ways."""
LOCATION = "ksql.metastore.backup.location"
SERVICE_ID = "ksql.service.id"
DEFAULT_SERVICE_ID = "default_"
REPLICAS = "ksql.internal.topic.replicas"
MIN_INSYNC = "ksql.internal.topic.min.insync.replicas"
PERSISTENT_PREFIX = "ksql.persistent.prefix"
DEFAULT_PERSISTENT_PREFIX = "query_"

_URL = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")


@dataclass(frozen=True, slots=True)
class MetastoreSettings:
    """A ksqlDB service and where its backups go."""

    service_id: str = DEFAULT_SERVICE_ID
    location: Path | None = None
    """None: the user's data folder."""
    enabled: bool = True
    why: str = ""
    """Which setting decides, in words, where one was read."""
    style: Style = Style.KLIP
    """Of new files."""
    replicas: int = 1
    min_insync: int | None = None
    """None: as the brokers have it."""
    persistent_prefix: str = DEFAULT_PERSISTENT_PREFIX

    @property
    def topic(self) -> str:
        """The service's command topic."""
        return command_topic(self.service_id)


def read_settings(path: Path) -> MetastoreSettings:
    """Read a server's properties file. Raises: BadConnectionSettings."""
    return settings_of(read_properties(path))


def settings_of(properties: Properties) -> MetastoreSettings:
    """What *properties* say.

    KLIP-31 has a switch and a location; ksqlDB as it was shipped has the location alone, which
    is the switch as well.

    Raises: BadConnectionSettings for spellings that contradict each other, a value that is none,
        and a location that is a URL.
    """
    location = properties.text(LOCATION)
    told = _switch(properties)
    enabled, why, style = bool(location), f"{LOCATION} is not set", Style.KLIP
    if told is not None:
        key, enabled = told
        why = f"{key} is {str(enabled).lower()}"
    elif location:
        why, style = f"{LOCATION} is set", Style.SHIPPED
    minimum = properties.text(MIN_INSYNC)
    return MetastoreSettings(
        service_id=properties.text(SERVICE_ID) or DEFAULT_SERVICE_ID,
        location=None if not location else local_folder(location, properties, LOCATION),
        enabled=enabled,
        why=why if told is not None or location else f"none of {', '.join(ENABLE)} is set",
        style=style,
        replicas=properties.number(REPLICAS, 1),
        min_insync=None if minimum is None else properties.number(MIN_INSYNC, 1),
        persistent_prefix=properties.text(PERSISTENT_PREFIX) or DEFAULT_PERSISTENT_PREFIX,
    )


def _switch(properties: Properties) -> tuple[str, bool] | None:
    told = [(key, properties.flag(key)) for key in ENABLE if properties.text(key) is not None]
    if not told:
        return None
    if len({value for _, value in told}) > 1:
        raise properties.error(ENABLE[0], f"contradicts {ENABLE[1]}; keep one of the two")
    return told[0]


def local_folder(text: str, properties: Properties | None = None, key: str = "--location") -> Path:
    """A folder of this machine, for a file system of others is written by several servers.

    Raises: BadConnectionSettings for a URL.
    """
    if _URL.match(text):
        problem = "is a URL; only a folder of this machine can hold a metastore backup"
        if properties is not None:
            raise properties.error(key, problem)
        raise BadConnectionSettings(f"{key} {problem}.")
    return Path(text).expanduser()


def default_folder() -> Path:
    """Where backups go that no setting places: the user's data folder."""
    import platformdirs

    return platformdirs.user_data_path("breakglass") / "metastore"
