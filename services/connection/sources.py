"""Where connection settings come from: flags, environment, profile, and files that these name."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, fields, replace
from pathlib import Path
from typing import Self

from breakglass.services.connection.endpoint import Endpoint, parse_broker_addresses
from breakglass.services.connection.properties import (
    Properties,
    Property,
    overlay,
    read_properties,
    readable_by_others,
)
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import (
    BOOTSTRAP,
    CLIENT_ID,
    REQUEST_TIMEOUT,
    ConnectionSettings,
    keys_without_effect,
    settings_from,
)
from breakglass.services.connection.variables import BUILT_IN_PROVIDERS, expand

_SECRET_KEYS = (
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
)


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """What the flags or the environment say; None or empty where they say nothing."""

    bootstrap_server: str | None = None
    command_config: str | None = None
    profile: str | None = None
    broker_address: tuple[str, ...] = ()
    """``ID=HOST:PORT`` each."""
    listener: str | None = None
    client_id: str | None = None
    request_timeout_ms: str | None = None

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read ``BREAKGLASS_BOOTSTRAP_SERVER`` and so on, one variable for each field.

        ``BREAKGLASS_BROKER_ADDRESS`` takes several addresses with commas between.
        """
        values = {one.name: environ.get(_variable(one.name)) or None for one in fields(cls)}
        addresses = values.pop("broker_address") or ""
        return cls(**values, broker_address=tuple(filter(None, addresses.split(","))))


def connection_settings(
    flags: ConnectionOptions,
    environ: Mapping[str, str] = os.environ,
    profiles_folder: Path | None = None,
) -> ConnectionSettings:
    """Put the sources together: flags before environment before profile before defaults.

    Only the first command config that is named is read; it ranks just below the source that names
    it. Security settings are never mixed (`properties.overlay`). Broker addresses are put together
    by broker id. A listener that the profile has settings for is taken from there; any other name
    is left in `ConnectionSettings.listener`.

    Raises: BadConnectionSettings, naming the source, and file and line where there are any.
    """
    variables = ConnectionOptions.from_environment(environ)
    listener = flags.listener or variables.listener
    sources = [_from_options(flags, _flag), _from_options(variables, _variable)]
    profile_name = flags.profile or variables.profile
    in_profile = False
    if profile_name:
        from_profile, in_profile = _from_profile(profile_name, listener, profiles_folder)
        sources.append(from_profile)
    layers = list(_layers(sources))
    merged = overlay(
        [expand(layer.properties, environ, layer.providers) for layer in layers],
        layers[-1].properties.name,
    )
    addresses = [source.broker_addresses for source in reversed(sources)]
    return replace(
        settings_from(merged),
        broker_addresses={broker: at for held in addresses for broker, at in held.items()},
        listener=None if in_profile else listener,
        notes=(*keys_without_effect(merged), *_loose_rights(layers)),
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """Kafka's keys as one place has them."""

    properties: Properties
    file: Path | None = None
    providers: Mapping[str, str] | None = None
    """Variables that work there without being declared."""


@dataclass(frozen=True, slots=True)
class _Source:
    """What flags, environment or profile say."""

    layer: _Layer
    broker_addresses: Mapping[int, Endpoint]
    command_config: Path | None


def _from_options(options: ConnectionOptions, spelled: Callable[[str], str]) -> _Source:
    given = {
        BOOTSTRAP: ("bootstrap_server", options.bootstrap_server),
        CLIENT_ID: ("client_id", options.client_id),
        REQUEST_TIMEOUT: ("request_timeout_ms", options.request_timeout_ms),
    }
    entries = {
        key: Property(Secret(value), spelled(name)) for key, (name, value) in given.items() if value
    }
    return _Source(
        _Layer(Properties(entries, spelled("command_config"))),
        parse_broker_addresses(options.broker_address, spelled("broker_address")),
        Path(options.command_config) if options.command_config else None,
    )


def _from_profile(name: str, listener: str | None, folder: Path | None) -> tuple[_Source, bool]:
    """The profile as a source, and whether it has settings of its own for the listener."""
    from breakglass.services.connection.profiles import default_folder, load_profile

    profile = load_profile(name, folder or default_folder())
    written = [f"{broker}={address}" for broker, address in profile.broker_addresses.items()]
    source = _Source(
        _Layer(profile.at_listener(listener), profile.path, BUILT_IN_PROVIDERS),
        parse_broker_addresses(written, f"{profile.origin}: broker-address"),
        profile.command_config,
    )
    return source, listener in profile.listeners


def _flag(name: str) -> str:
    return "--" + name.replace("_", "-")


def _variable(name: str) -> str:
    return "BREAKGLASS_" + name.upper()


def _layers(sources: list[_Source]) -> Iterator[_Layer]:
    """What the sources say, first one first, with the one command config in its place."""
    config_read = False
    for source in sources:
        yield source.layer
        if source.command_config is not None and not config_read:
            yield _Layer(read_properties(source.command_config), source.command_config)
            config_read = True


def _loose_rights(layers: list[_Layer]) -> Iterator[str]:
    """A sentence for each file that holds a secret where other users can read it."""
    for layer in layers:
        if layer.file and _holds_secret(layer.properties) and readable_by_others(layer.file):
            yield f"{layer.file} holds a secret and other users can read it: chmod 600 it."


def _holds_secret(properties: Properties) -> bool:
    """Whether a secret is written out, not left to a variable."""
    return any("${" not in (properties.text(key) or "${") for key in _SECRET_KEYS)
