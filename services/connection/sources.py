"""Merges connection settings from flags, environment, profile, and the files that these name.

Variables such as ``${env:NAME}`` are replaced by Kafka's config providers (KIP-421, KIP-887).
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
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
    require_own,
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
from breakglass.services.errors import BadConnectionSettings
from breakglass.services.regular_file import SETTINGS_BYTES, read_given, read_regular

_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
"""ConfigTransformer.DEFAULT_PATTERN: provider, path if any, key."""

_CLASSES = {
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": "env",
    "org.apache.kafka.common.config.provider.FileConfigProvider": "file",
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": "directory",
}

BUILT_IN_PROVIDERS = {name: name for name in _CLASSES.values()}
"""Providers that profiles use without declaring them; a properties file must declare them."""


def expand(
    properties: Properties, environ: Mapping[str, str], providers: Mapping[str, str] | None = None
) -> Properties:
    """Replace variables by their values.

    A ``${name:...}`` for which no provider has that name stays unchanged, as in Kafka.

    Raises: BadConnectionSettings for a provider class we do not have, and for a variable without
        a value.
    """
    kinds = {**(providers or {}), **_declared(properties)}
    if not kinds:
        return properties
    expanded = {key: _expand(properties, key, kinds, environ) for key in properties}
    return Properties(expanded, properties.name)


def _declared(properties: Properties) -> dict[str, str]:
    """Provider kinds by name, as ``config.providers`` declares them."""
    names = (properties.text("config.providers") or "").split(",")
    declared: dict[str, str] = {}
    for name in filter(None, map(str.strip, names)):
        key = f"config.providers.{name}.class"
        class_name = properties.text(key)
        if class_name not in _CLASSES:
            raise properties.error(
                key,
                f"is {class_name or 'missing'}; only Kafka's EnvVarConfigProvider, "
                "FileConfigProvider and DirectoryConfigProvider work here: write the value itself "
                "or use one of them",
            )
        declared[name] = _CLASSES[class_name]
    return declared


def _expand(
    properties: Properties, key: str, kinds: Mapping[str, str], environ: Mapping[str, str]
) -> Property:
    entry = properties[key]
    files: list[Path] = []
    value, missing = _substitute(entry.value, kinds, environ, files)
    if missing:
        raise properties.error(key, f"uses {missing}, which has no value: set it, or write it out")
    return Property(value, entry.origin, entry.folder, (*entry.files, *files))


def _substitute(
    value: Secret, kinds: Mapping[str, str], environ: Mapping[str, str], files: list[Path]
) -> tuple[Secret, str]:
    """The value with its variables replaced, and the first variable without a value, or ''.

    Adds to *files* those that were read.
    """
    parts: list[str] = []
    text, end = value.reveal(), 0
    for match in _VARIABLE.finditer(text):
        kind = kinds.get(match[1])
        if kind is None:
            continue
        if kind != "env":
            files.append(Path(match[2] or "", match[3] if kind == "directory" else ""))
        found = _look_up(kind, match[2] or "", match[3], environ)
        if found is None:
            return value, match[0]
        parts += [text[end : match.start()], found.reveal()]
        end = match.end()
    return Secret("".join([*parts, text[end:]])), ""


def _look_up(kind: str, path: str, key: str, environ: Mapping[str, str]) -> Secret | None:
    if kind == "env":
        return Secret(environ[key]) if not path and key in environ else None
    if kind == "file":
        # FileConfigProvider reads UTF-8, unlike the properties file that names it.
        import javaproperties

        try:
            values = javaproperties.loads(read_regular(Path(path), SETTINGS_BYTES).decode("utf-8"))
        except (OSError, UnicodeDecodeError, javaproperties.InvalidUEscapeError):
            return None
        return Secret(values[key]) if key in values else None
    return _file_in_directory(Path(path), key) if path else None


def _file_in_directory(folder: Path, key: str) -> Secret | None:
    if Path(key).name != key:
        return None
    try:
        return Secret(read_regular(folder / key, SETTINGS_BYTES).decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None


_SECRET_KEYS = (
    "sasl.jaas.config",
    "sasl.oauthbearer.client.credentials.client.secret",
    "ssl.key.password",
    "ssl.keystore.key",
    "ssl.keystore.password",
)


@dataclass(frozen=True, slots=True)
class ConnectionOptions:
    """The settings of the flags or the environment; None or empty where not given."""

    bootstrap_server: str | None = None
    command_config: str | None = None
    profile: str | None = None
    broker_address: tuple[str, ...] = ()
    """``ID=HOST:PORT``, ``ID=HOST:PORT/NAME`` or ``@FILE`` each."""
    listener: str | None = None
    client_id: str | None = None
    request_timeout_ms: str | None = None

    def words(self) -> tuple[str, ...]:
        """What is typed behind a command for the same connection."""
        given = {field.name: getattr(self, field.name) for field in fields(self)}
        addresses = given.pop("broker_address")
        pairs = [(name, value) for name, value in given.items() if value]
        pairs += [("broker_address", address) for address in addresses]
        return tuple(
            word for name, value in pairs for word in (f"--{name.replace('_', '-')}", value)
        )

    @classmethod
    def from_environment(cls, environ: Mapping[str, str]) -> Self:
        """Read ``BREAKGLASS_BOOTSTRAP_SERVER`` and so on, one variable for each field.

        ``BREAKGLASS_BROKER_ADDRESS`` takes several addresses with commas between.
        """
        values = {field.name: environ.get(_variable(field.name)) or None for field in fields(cls)}
        addresses = values.pop("broker_address") or ""
        return cls(**values, broker_address=tuple(filter(None, addresses.split(","))))


def without_variables(environ: Mapping[str, str]) -> dict[str, str]:
    """*environ* without the variables of `ConnectionOptions.from_environment`."""
    own = {_variable(field.name) for field in fields(ConnectionOptions)}
    return {name: value for name, value in environ.items() if name not in own}


@dataclass(frozen=True, slots=True)
class ClientFile:
    """Client settings of a file that is another program's: a connector's, a server's."""

    path: Path
    properties: Properties
    """Kafka's own client keys alone; variables of the built-in providers are expanded."""


def connection_settings(
    flags: ConnectionOptions,
    environ: Mapping[str, str] = os.environ,
    profiles_folder: Path | None = None,
    client_file: ClientFile | None = None,
) -> ConnectionSettings:
    """Put the sources together: flags before environment before profile before defaults.

    Only the first named command config is read; it ranks just below the source that names it. A
    *client_file* stands in the place of the flags' own, unless a flag names one or a profile.
    Security settings are never mixed (`properties.overlay`). Broker addresses are merged by broker
    id. If the profile has settings for the listener, these are used; any other listener name is
    left in `ConnectionSettings.listener`.

    Raises: BadConnectionSettings, naming the source, and file and line where there are any.
    """
    variables = ConnectionOptions.from_environment(environ)
    listener = flags.listener or variables.listener
    sources = [_from_options(flags, _flag), _from_options(variables, _variable)]
    if flags.command_config or flags.profile:
        client_file = None
    profile_name = flags.profile or variables.profile
    in_profile = False
    if profile_name:
        from_profile, in_profile = _from_profile(profile_name, listener, profiles_folder)
        sources.append(from_profile)
    layers = list(_layers(sources, client_file))
    merged = overlay(
        [expand(layer.properties, environ, layer.providers) for layer in layers],
        layers[-1].properties.name,
    )
    given = [source.broker_addresses for source in reversed(sources)]
    addresses = {broker: at for source in given for broker, at in source.items()}
    if any(key in layer.properties for layer in layers for key in _SECRET_KEYS):
        named = (merged.path(key) for key in merged if key.endswith(".location"))
        texts = (*flags.broker_address, *variables.broker_address)
        require_own(
            *(layer.file for layer in layers if layer.file),
            *(Path(text[1:]) for text in texts if text.startswith("@")),
            *(path for entry in merged.values() for path in entry.files),
            *filter(None, named),
        )
    settings = settings_from(merged)
    in_clear = []
    if (
        settings.sasl is not None
        and settings.tls is None
        and settings.sasl.mechanism in ("PLAIN", "OAUTHBEARER")
    ):
        what = "password" if settings.sasl.mechanism == "PLAIN" else "token"
        in_clear = [
            f"{settings.sasl.mechanism} without TLS sends the {what} as it is to every address "
            "that the cluster's metadata names: use SASL_SSL, or SCRAM."
        ]
    return replace(
        settings,
        bootstrap_servers=_certified(settings.bootstrap_servers, addresses.values()),
        broker_addresses=addresses,
        listener=None if in_profile else listener,
        notes=(*keys_without_effect(merged), *_loose_rights(layers), *in_clear),
    )


@dataclass(frozen=True, slots=True)
class _Layer:
    """Kafka's keys from one place."""

    properties: Properties
    file: Path | None = None
    providers: Mapping[str, str] | None = None
    """Providers of variables that work there without a declaration."""


@dataclass(frozen=True, slots=True)
class _Source:
    """The settings of the flags, the environment or the profile."""

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
    # The addresses in texts, and in the files that they name.
    origin = spelled("broker_address")
    lines: list[str] = []
    for text in options.broker_address:
        if text.startswith("@"):
            lines.extend(_address_lines(Path(text[1:]), origin))
        else:
            lines.append(text)
    return _Source(
        _Layer(Properties(entries, spelled("command_config"))),
        parse_broker_addresses(lines, origin),
        Path(options.command_config) if options.command_config else None,
    )


def _address_lines(path: Path, origin: str) -> Iterator[str]:
    """The lines of a file of addresses, without those that are empty or begin with ``#``."""
    try:
        text = read_given(path, SETTINGS_BYTES).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "it is not text"
    else:
        lines = (line.strip() for line in text.splitlines())
        yield from (line for line in lines if line and not line.startswith("#"))
        return
    raise BadConnectionSettings(
        f"{origin}: {path} cannot be read ({reason}); write a file with a line ID=HOST:PORT for "
        "each broker."
    )


def _certified(servers: Iterable[Endpoint], addresses: Iterable[Endpoint]) -> tuple[Endpoint, ...]:
    """*servers*, each with the name of its certificate where one of *addresses* says it."""
    names = {(address.host, address.port): address.advertised_host for address in addresses}
    return tuple(
        server.standing_for(names.get((server.host, server.port), "")) for server in servers
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


def _layers(sources: list[_Source], client_file: ClientFile | None) -> Iterator[_Layer]:
    """The layers of the sources in order, with the command config in its place."""
    config_read = False
    for source in sources:
        yield source.layer
        if client_file is not None and not config_read:
            yield _Layer(client_file.properties, client_file.path, BUILT_IN_PROVIDERS)
            config_read = True
        if source.command_config is not None and not config_read:
            yield _Layer(read_properties(source.command_config), source.command_config)
            config_read = True


def _loose_rights(layers: list[_Layer]) -> Iterator[str]:
    for layer in layers:
        # Whether a secret is written in plain text, not as a variable.
        if (
            layer.file
            and any("${" not in (layer.properties.text(key) or "${") for key in _SECRET_KEYS)
            and readable_by_others(layer.file)
        ):
            yield f"{layer.file} holds a secret and other users can read it: chmod 600 it."
