"""Profiles: named connections in TOML files of the user's config folder.

A profile has Kafka's own keys, with their dots, and a few of ours::

    [prod-eu-1]                             # in profiles.toml; profiles/prod-eu-1.toml has none
    bootstrap.servers = "b1.prod:9093,b2.prod:9093"
    security.protocol = "SASL_SSL"
    sasl.mechanism = "SCRAM-SHA-512"
    sasl.jaas.config = '... required username="ops" password="${env:KAFKA_PASSWORD}";'
    command-config = "prod.properties"      # from the profile's folder
    backups = ["/mnt/backups"]              # where this cluster's topics are backed up

    [prod-eu-1.broker-address]              # like --broker-address
    1 = "localhost:19092"

    [prod-eu-1.listeners.vpn]               # what --listener vpn puts over the rest
    bootstrap.servers = "vpn.prod:9094"

Profiles are read with tomllib and dataclasses: importing pydantic would take longer than all of a
triage's own work.
"""

from __future__ import annotations

import tomllib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from breakglass.services.connection.properties import Properties, Property, overlay
from breakglass.services.connection.secret import Secret
from breakglass.services.errors import BadConnectionSettings
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular

FILE = "profiles.toml"
FOLDER = "profiles"
COMMAND_CONFIG = "command-config"
BROKER_ADDRESS = "broker-address"
LISTENERS = "listeners"
BACKUPS = "backups"


@dataclass(frozen=True, slots=True)
class Profile:
    """One named connection."""

    name: str
    path: Path
    properties: Properties
    command_config: Path | None
    broker_addresses: Mapping[str, str]
    """Addresses by broker id, as written."""
    listeners: Mapping[str, Properties]
    """The settings of each named listener, which override `properties`."""
    backups: tuple[str, ...] = ()
    """Places of topic backups, as written."""

    @property
    def origin(self) -> str:
        return self.properties.name

    def at_listener(self, listener: str | None) -> Properties:
        """The profile's settings, with those of *listener* if the profile names it."""
        chosen = self.listeners.get(listener) if listener is not None else None
        if chosen is None:
            return self.properties
        return overlay([chosen, self.properties], self.properties.name)


def default_folder() -> Path:
    """The user's config folder."""
    import platformdirs

    return platformdirs.user_config_path("breakglass")


def load_profile(name: str, folder: Path) -> Profile:
    """The profile of that name.

    Raises: BadConnectionSettings when no profile or two profiles have the name; when the file
        cannot be read or is not TOML, with line and column.
    """
    found = {path: table for path, names in _tables(folder) for key, table in names if key == name}
    if not found:
        names = profile_names(folder)
        raise BadConnectionSettings(
            f"there is no profile {name!r} in {folder}; "
            + (f"choose one of {', '.join(names)}." if names else f"write it into {FILE} there.")
        )
    if len(found) > 1:
        files = " and ".join(path.name for path in found)
        raise BadConnectionSettings(f"profile {name!r} is in both {files}; leave it in one.")
    return _profile(name, *next(iter(found.items())))


def profile_names(folder: Path) -> list[str]:
    """The names of all profiles. Raises BadConnectionSettings when a file cannot be read."""
    return sorted({key for _, tables in _tables(folder) for key, _ in tables})


def _tables(folder: Path) -> Iterator[tuple[Path, list[tuple[str, Any]]]]:
    """Each file of *folder* with its profiles; a file under ``profiles/`` is one profile."""
    shared = folder / FILE
    if shared.is_file():
        yield shared, list(_load(shared).items())
    for path in sorted((folder / FOLDER).glob("*.toml")):
        yield path, [(path.stem, path)]


def _load(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_regular(path, SETTINGS_BYTES).decode("utf-8"))
    except OSError as error:
        problem = f"cannot be read ({error.strerror}): check its rights"
    except UnicodeDecodeError:
        problem = "is not UTF-8 text; save it as such"
    except tomllib.TOMLDecodeError as error:
        problem = f"is not TOML: {error}; correct it there"
    raise BadConnectionSettings(f"{path} {problem}.")


def _profile(name: str, path: Path, held: Any) -> Profile:
    table = _load(held) if isinstance(held, Path) else held
    origin = f"profile {name} in {path.name}"
    if not isinstance(table, dict):
        raise BadConnectionSettings(f"{origin} is not a table; write [{name}] and its keys below.")
    ours = (COMMAND_CONFIG, BROKER_ADDRESS, LISTENERS, BACKUPS)
    kafka = {key: value for key, value in table.items() if key not in ours}
    listeners = _table(table, LISTENERS, origin)
    command_config = table.get(COMMAND_CONFIG)
    if command_config is not None and not isinstance(command_config, str):
        raise BadConnectionSettings(f"{origin}: {COMMAND_CONFIG} is not text; write a path.")
    value = table.get(BACKUPS, [])
    if not isinstance(value, list) or not all(isinstance(one, str) for one in value):
        raise BadConnectionSettings(f"{origin}: {BACKUPS} is not a list of texts; write one.")
    return Profile(
        name=name,
        path=path,
        properties=_properties(kafka, origin, path.parent),
        command_config=path.parent / command_config if command_config else None,
        broker_addresses={
            broker: str(address)
            for broker, address in _table(table, BROKER_ADDRESS, origin).items()
        },
        listeners={
            listener: _properties(
                _table(listeners, listener, origin), f"{origin}, listener {listener}", path.parent
            )
            for listener in listeners
        },
        backups=tuple(value),
    )


def _table(table: Mapping[str, Any], key: str, origin: str) -> dict[str, Any]:
    value = table.get(key, {})
    if not isinstance(value, dict):
        raise BadConnectionSettings(f"{origin}: {key} is not a table; write [PROFILE.{key}].")
    return value


def _properties(table: Mapping[str, Any], origin: str, folder: Path) -> Properties:
    entries: dict[str, Property] = {}
    for key, value in _flat(table, ""):
        text = _text(value)
        if text is None:
            raise BadConnectionSettings(
                f"{origin}: {key} is neither text, a number, true or false, nor a list of texts; "
                "write one of these."
            )
        entries[key] = Property(text, origin, folder)
    return Properties(entries, origin)


def _flat(table: Mapping[str, Any], prefix: str) -> Iterator[tuple[str, Any]]:
    """Flatten nested tables: TOML reads ``ssl.key.password`` as tables in tables."""
    for key, value in table.items():
        if isinstance(value, dict):
            yield from _flat(value, f"{prefix}{key}.")
        else:
            yield prefix + key, value


def _text(value: Any) -> Secret | None:
    if isinstance(value, bool):
        return Secret(str(value).lower())
    if isinstance(value, str | int):
        return Secret(str(value))
    if isinstance(value, list) and all(isinstance(item, str) for item in value):
        return Secret(",".join(value))
    return None
