"""Variables in settings, ``${env:NAME}`` and the like: config providers (KIP-421, KIP-887)."""

from __future__ import annotations

import re
from collections.abc import Mapping
from pathlib import Path

from breakglass.services.connection.properties import Properties, Property
from breakglass.services.connection.secret import Secret
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular

_VARIABLE = re.compile(r"\$\{([^}]*?):(?:([^}]*?):)?([^}]*?)\}")
"""ConfigTransformer.DEFAULT_PATTERN: provider, path if any, key."""

_CLASSES = {
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider": "env",
    "org.apache.kafka.common.config.provider.FileConfigProvider": "file",
    "org.apache.kafka.common.config.provider.DirectoryConfigProvider": "directory",
}

BUILT_IN_PROVIDERS = {name: name for name in _CLASSES.values()}
"""What profiles may use without declaring it; in a properties file Kafka wants a declaration."""


def expand(
    properties: Properties, environ: Mapping[str, str], providers: Mapping[str, str] | None = None
) -> Properties:
    """Put the values of variables in their place.

    A ``${name:...}`` whose name no provider bears stays as it is, as Kafka leaves it.

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
    value, missing = _substitute(entry.value, kinds, environ)
    if missing:
        raise properties.error(key, f"uses {missing}, which has no value: set it, or write it out")
    return Property(value, entry.origin, entry.folder)


def _substitute(
    value: Secret, kinds: Mapping[str, str], environ: Mapping[str, str]
) -> tuple[Secret, str]:
    """The value with its variables replaced, and the first variable that has none, or ''."""
    parts: list[str] = []
    text, end = value.reveal(), 0
    for match in _VARIABLE.finditer(text):
        kind = kinds.get(match[1])
        if kind is None:
            continue
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
        return _value_in_file(Path(path), key)
    return _file_in_directory(Path(path), key) if path else None


def _value_in_file(path: Path, key: str) -> Secret | None:
    """FileConfigProvider reads UTF-8, unlike the properties file that names it."""
    import javaproperties

    try:
        values = javaproperties.loads(read_regular(path, SETTINGS_BYTES).decode("utf-8"))
    except (OSError, UnicodeDecodeError, javaproperties.InvalidUEscapeError):
        return None
    return Secret(values[key]) if key in values else None


def _file_in_directory(folder: Path, key: str) -> Secret | None:
    if Path(key).name != key:
        return None
    try:
        return Secret(read_regular(folder / key, SETTINGS_BYTES).decode("utf-8"))
    except (OSError, UnicodeDecodeError):
        return None
