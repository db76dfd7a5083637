"""Reads the properties of Kafka Backup's connectors: what is taken over, and what is not and why.

Every key of a file is honoured, refused, or named in a sentence as one without effect. Source:
BackupSinkConfig, BackupSourceConfig and BackupConfig of itadventurer/kafka-backup; the keys that
every connector may have are those of ConnectorConfig of Kafka Connect.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from difflib import get_close_matches
from enum import StrEnum
from pathlib import Path

from breakglass.services.connection.properties import Properties, read_properties
from breakglass.services.connection.settings import has_effect
from breakglass.services.connection.sources import BUILT_IN_PROVIDERS, ClientFile, expand

CLUSTER = "cluster."
"""The prefix of client settings (BackupConfig.CLUSTER_PREFIX)."""
BYTES_CONVERTER = "org.apache.kafka.connect.converters.ByteArrayConverter"
BYTES_DESERIALIZER = "org.apache.kafka.common.serialization.ByteArrayDeserializer"


class ConnectorKind(StrEnum):
    """One of Kafka Backup's two connectors, by the name of its class."""

    SINK = "BackupSinkConnector"
    """Makes backups."""
    SOURCE = "BackupSourceConnector"
    """Restores them."""

    @property
    def command(self) -> str:
        return "backup run" if self is ConnectorKind.SINK else "backup restore"

    @property
    def class_name(self) -> str:
        """The value of ``connector.class``."""
        package = "sink" if self is ConnectorKind.SINK else "source"
        return f"de.azapps.kafkabackup.{package}.{self}"

    @property
    def spellings(self) -> tuple[str, ...]:
        """The values of ``connector.class`` that Connect takes for it."""
        return (self.class_name, str(self), self.removesuffix("Connector"))


@dataclass(frozen=True, slots=True)
class ConnectorKey:
    """One key that a connector's file may have. A name that ends with ``*`` is a prefix."""

    name: str
    option: str = ""
    """The option that it stands for; empty: it is no option."""
    must_be: str = ""
    """The only value it may have; ``-``: none at all. Empty: any."""
    because: str = ""
    """Why it has no effect, or why another value is refused."""
    kind: ConnectorKind | None = None
    """None: both connectors."""

    def names(self, key: str) -> bool:
        prefix = self.name.removesuffix("*")
        return key == self.name or (prefix != self.name and key.startswith(prefix))


_AS_THEY_ARE = "keys, values and headers are copied byte for byte"
_WORKER = "it belongs to Connect's worker, and no worker runs here"

KEYS: tuple[ConnectorKey, ...] = (
    ConnectorKey("target.dir", "--store", kind=ConnectorKind.SINK),
    ConnectorKey("source.dir", "--store", kind=ConnectorKind.SOURCE),
    ConnectorKey("topics", "--topics"),
    ConnectorKey("topics.regex", "--topics-regex", kind=ConnectorKind.SINK),
    ConnectorKey("max.segment.size.bytes", "--max-segment-bytes", kind=ConnectorKind.SINK),
    ConnectorKey("snapshot", "--snapshot", kind=ConnectorKind.SINK),
    ConnectorKey(
        "batch.size",
        because="it counts the bytes that Kafka Backup reads at once; --batch-records counts the "
        "records of a transaction",
        kind=ConnectorKind.SOURCE,
    ),
    ConnectorKey("connector.class", must_be="its own class", because="the file is checked by it"),
    ConnectorKey("key.converter", must_be=BYTES_CONVERTER, because=_AS_THEY_ARE),
    ConnectorKey("value.converter", must_be=BYTES_CONVERTER, because=_AS_THEY_ARE),
    ConnectorKey("header.converter", must_be=BYTES_CONVERTER, because=_AS_THEY_ARE),
    ConnectorKey("cluster.key.deserializer", must_be=BYTES_DESERIALIZER, because=_AS_THEY_ARE),
    ConnectorKey("cluster.value.deserializer", must_be=BYTES_DESERIALIZER, because=_AS_THEY_ARE),
    ConnectorKey("cluster.bootstrap.servers", "--bootstrap-server"),
    ConnectorKey("cluster.*", "--command-config"),
    ConnectorKey("transforms", must_be="-", because=_AS_THEY_ARE),
    ConnectorKey("predicates", must_be="-", because=_AS_THEY_ARE),
    ConnectorKey("name", because="no connector is registered anywhere"),
    ConnectorKey("tasks.max", because="--master says how many tasks run at once"),
    ConnectorKey("tasks.max.enforce", because="--master says how many tasks run at once"),
    ConnectorKey("admin.*", because="one client does everything, with the settings of cluster.*"),
    ConnectorKey("consumer.override.*", because="the client has the settings of cluster.*"),
    ConnectorKey("producer.override.*", because="the client has the settings of cluster.*"),
    ConnectorKey("admin.override.*", because="the client has the settings of cluster.*"),
    ConnectorKey("key.converter.*", because=_AS_THEY_ARE),
    ConnectorKey("value.converter.*", because=_AS_THEY_ARE),
    ConnectorKey("header.converter.*", because=_AS_THEY_ARE),
    ConnectorKey("transforms.*", because="no transform runs here"),
    ConnectorKey("predicates.*", because="no transform runs here"),
    ConnectorKey("errors.*", because="no record is ever skipped because of an error"),
    ConnectorKey("config.action.reload", because=_WORKER),
    ConnectorKey("config.providers*", because="env, file and directory need no declaration"),
    ConnectorKey("connector.plugin.version", because=_WORKER),
    ConnectorKey("exactly.once.support", because="a restore writes in transactions anyway"),
    ConnectorKey("transaction.boundary*", because="--batch-records sets their size"),
    ConnectorKey("topic.creation.*", because="topics get their saved settings"),
    ConnectorKey(
        "allow.old.kafka.connect.version.unsafe",
        because="no Connect runs here",
        kind=ConnectorKind.SOURCE,
    ),
    ConnectorKey("bootstrap.servers", because=f"{_WORKER}; cluster.bootstrap.servers is read"),
    ConnectorKey("plugin.path", because=_WORKER),
    ConnectorKey("offset.*", because=f"{_WORKER}; --progress stores how far a restore is"),
    ConnectorKey("offsets.storage.topic", because=_WORKER),
)


@dataclass(frozen=True, slots=True)
class ConnectorSettings:
    """What a connector's file says of a run; None or empty where it says nothing."""

    store: str | None = None
    topics: tuple[str, ...] = ()
    pattern: str | None = None
    max_segment_bytes: int | None = None
    snapshot: bool = False
    client: Properties = field(default_factory=lambda: Properties({}, ""))
    """Kafka's own client keys, without ``cluster.``; their variables are not expanded."""
    remarks: tuple[str, ...] = ()
    """A sentence for each key without effect."""


def read_connector(
    path: Path, kind: ConnectorKind, environ: Mapping[str, str] = os.environ
) -> tuple[ConnectorSettings, ClientFile]:
    """What the file at *path* says, and its client settings as a source of a connection.

    Raises: BadConnectionSettings for a file that cannot be read or a value that is refused.
    """
    found = connector_settings(read_properties(path), kind, environ)
    return found, ClientFile(path, found.client)


def connector_settings(
    properties: Properties, kind: ConnectorKind, environ: Mapping[str, str]
) -> ConnectorSettings:
    """What *properties* say to a connector of *kind*; variables get the values of *environ*.

    Raises: BadConnectionSettings, naming file, line and key, and no value of ``cluster.*``.
    """
    client, rest = _parted(properties)
    known = expand(rest, environ, BUILT_IN_PROVIDERS)
    # Refuse values under which the connector would do another thing than this program.
    for key in KEYS:
        given = known.text(key.name)
        if given is None or not key.must_be:
            continue
        if key.name == "connector.class":
            _check_class(known, given, kind)
        elif given != key.must_be:
            only = "cannot be used" if key.must_be == "-" else f"must be {key.must_be}"
            raise known.error(key.name, f"{only}: {key.because}")
    sink = kind is ConnectorKind.SINK
    place = "target.dir" if sink else "source.dir"
    topics = tuple(filter(None, map(str.strip, (known.text("topics") or "").split(","))))
    pattern = known.text("topics.regex") if sink else None
    try:
        # The ``*`` of Kafka Backup's own example fails in Java, too.
        re.compile(pattern or "")
    except re.error as error:
        told = f"is {pattern!r}, no regular expression ({error}): write .* for every topic"
        raise known.error("topics.regex", told) from None
    if topics and pattern:
        raise known.error(
            "topics.regex", "is given together with topics; Connect takes one of the two"
        )
    size = known.text("max.segment.size.bytes") if sink else None
    return ConnectorSettings(
        store=known.text(place),
        topics=topics,
        pattern=pattern,
        max_segment_bytes=known.number("max.segment.size.bytes", 1) if size else None,
        snapshot=sink and known.flag("snapshot"),
        client=client,
        remarks=tuple(_without_effect(properties, kind)),
    )


def _parted(properties: Properties) -> tuple[Properties, Properties]:
    """The client's settings under Kafka's own keys, and the connector's that are read.

    Variables of keys without effect need no value.
    """
    client = {
        key.removeprefix(CLUSTER): entry
        for key, entry in properties.items()
        if key.startswith(CLUSTER) and has_effect(key.removeprefix(CLUSTER))
    }
    read = {key.name for key in KEYS if key.option or key.must_be}
    rest = {key: entry for key, entry in properties.items() if key in read}
    return Properties(client, properties.name), Properties(rest, properties.name)


def _check_class(properties: Properties, given: str, kind: ConnectorKind) -> None:
    if given in kind.spellings:
        return
    for other in ConnectorKind:
        if given in other.spellings:
            raise properties.error(
                "connector.class", f"is {other}: `breakglass {other.command}` reads this file"
            )
    raise properties.error("connector.class", f"is not {kind.class_name}, the only one read here")


def _without_effect(properties: Properties, kind: ConnectorKind) -> Iterator[str]:
    for name, entry in properties.items():
        key = known_key(name)
        if key is None:
            close = get_close_matches(name, [one.name for one in KEYS], 1, 0.8)
            meant = f" Is {close[0]} meant?" if close else ""
            yield f"{entry.origin}: {name} is not known, and has no effect.{meant}"
        elif key.kind not in (None, kind):
            yield f"{entry.origin}: {name} has no effect here: it is a key of {key.kind}."
        elif key.name == "cluster.*" and not has_effect(name.removeprefix(CLUSTER)):
            yield f"{entry.origin}: {name} has no effect here: the client has no such setting."
        elif not (key.option or key.must_be):
            yield f"{entry.origin}: {name} has no effect here: {key.because}."


def known_key(name: str) -> ConnectorKey | None:
    """The key that *name* is, the longest prefix winning; None if it is not known."""
    fitting = [key for key in KEYS if key.names(name)]
    return max(fitting, key=lambda key: (key.name == name, len(key.name)), default=None)
