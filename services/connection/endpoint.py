"""Parses brokers' addresses as operators write them, and finds the listener they belong to.

Where the brokers of a cluster are: a session that was given one address survives its death.

What one client of a session learns from metadata, all of them use. It is remembered by cluster id
for later sessions that are given one of the same addresses, which believe it only where the broker
that answers there is of that cluster.
"""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from breakglass.services.errors import BadConnectionSettings
from breakglass.services.regular_file import read_regular, replace_regular
from breakglass.services.snapshot import Broker

_HOST_PORT = re.compile(
    r"(?:(?P<listener>[0-9a-zA-Z\-%._]*)://)?\[?(?P<host>[0-9a-zA-Z\-%._:]*)\]?:(?P<port>[0-9]+)"
)
"""HOST_PORT_PATTERN of Utils.java, so that every address that Kafka's tools accept is accepted."""
_CERTIFIED = re.compile(r"(?P<address>.*:[0-9]+)/(?P<name>[0-9a-zA-Z\-._]+)")
"""An address of a broker, and the name in the broker's certificate."""


class Endpoint(NamedTuple):
    """Where a broker listens."""

    host: str
    port: int
    advertised_host: str = ""
    """The broker's advertised name, where *host* is a tunnel or a proxy to the broker."""

    @property
    def certified_name(self) -> str:
        """The host name that the broker's certificate must have."""
        return self.advertised_host or self.host

    def standing_for(self, advertised_host: str) -> Endpoint:
        """The same address, known to lead to the broker that advertises *advertised_host*."""
        return self._replace(advertised_host=advertised_host)

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


def parse_endpoint(text: str, origin: str) -> Endpoint:
    """Read ``HOST:PORT``, ``[IPV6]:PORT`` or ``LISTENER://HOST:PORT``.

    *origin* says where the text was written, for the error.

    Raises: BadConnectionSettings.
    """
    match = _HOST_PORT.fullmatch(text.strip())
    if match is None or not match["host"] or not 0 < int(match["port"]) < 65536:
        raise BadConnectionSettings(
            f"{origin}: {text.strip()!r} is not an address; write HOST:PORT, for example b1:9092."
        )
    return Endpoint(match["host"], int(match["port"]))


def parse_endpoints(text: str, origin: str) -> tuple[Endpoint, ...]:
    """Read a list of addresses with commas between, as in ``bootstrap.servers``.

    Raises: BadConnectionSettings, also for a list without any address.
    """
    addresses = tuple(parse_endpoint(part, origin) for part in text.split(",") if part.strip())
    if not addresses:
        raise BadConnectionSettings(
            f"{origin} names no broker; write HOST:PORT, several with commas between."
        )
    return addresses


def parse_broker_addresses(texts: Iterable[str], origin: str) -> dict[int, Endpoint]:
    """Read ``ID=HOST:PORT`` entries, each with ``/NAME`` or without, into addresses by broker id.

    NAME is what the broker advertises and what its certificate bears.

    Raises: BadConnectionSettings, also for a broker id that is given twice.
    """
    addresses: dict[int, Endpoint] = {}
    for text in texts:
        broker, equals, address = text.strip().partition("=")
        if not equals or not broker.strip().isascii() or not broker.strip().isdigit():
            raise BadConnectionSettings(
                f"{origin}: {text.strip()!r} is not a broker address; write ID=HOST:PORT, "
                "for example 1=localhost:19092, or @FILE with such lines."
            )
        if int(broker) in addresses:
            raise BadConnectionSettings(
                f"{origin} gives broker {int(broker)} twice; leave one address for it."
            )
        certified = _CERTIFIED.fullmatch(address.strip())
        addresses[int(broker)] = (
            parse_endpoint(address, origin)
            if certified is None
            else parse_endpoint(certified["address"], origin).standing_for(certified["name"])
        )
    return addresses


def parse_advertised(text: str, origin: str) -> dict[str, Endpoint]:
    """Read a broker's ``advertised.listeners`` into addresses by listener name (upper case).

    Raises: BadConnectionSettings.
    """
    listeners: dict[str, Endpoint] = {}
    for part in text.split(","):
        name, separator, _ = part.strip().partition("://")
        if not separator or not name:
            raise BadConnectionSettings(
                f"{origin}: {part.strip()!r} has no listener name; Kafka writes NAME://HOST:PORT."
            )
        listeners[name.upper()] = parse_endpoint(part, origin)
    return listeners


def listener_endpoints(listener: str, advertised: Mapping[int, str]) -> dict[int, Endpoint]:
    """The address of each broker on the listener of that name.

    *advertised* holds the ``advertised.listeners`` setting of each broker, by id. A broker answers
    DescribeConfigs for itself alone (ConfigHelper.scala), so every broker has to be reachable on
    some listener before another can be chosen; `Metadata` answers always name the listener that
    was connected to.

    Raises: BadConnectionSettings naming the first broker that has no such listener.
    """
    addresses: dict[int, Endpoint] = {}
    for broker, text in sorted(advertised.items()):
        listeners = parse_advertised(text, f"advertised.listeners of broker {broker}")
        if listener.upper() not in listeners:
            raise BadConnectionSettings(
                f"broker {broker} advertises no listener {listener!r}; "
                f"it has {', '.join(sorted(listeners)) or 'none'}: choose one of them."
            )
        addresses[broker] = listeners[listener.upper()]
    return addresses


SCHEMA = 1
MOST_CLUSTERS = 500
"""The files of so many clusters are looked at."""
MOST_BYTES = 1024 * 1024


class _Remembered(NamedTuple):
    """What another session learned of one cluster."""

    at_ns: int
    cluster_id: str
    given: frozenset[Endpoint]
    """The addresses that led to it."""
    brokers: Mapping[int, Endpoint]


class KnownAddresses:
    """Those of one cluster, that of the addresses *given* by the operator. For many threads."""

    def __init__(self, given: Sequence[Endpoint], folder: Path | None = None) -> None:
        """*folder* is where sessions remember them; None: this one remembers nothing."""
        self._given, self._folder = frozenset(_plain(given)), folder
        self._lock = threading.Lock()
        self._learned = ""
        """The cluster that the given addresses lead to."""
        self._brokers: dict[int, Endpoint] = {}
        self._newest: dict[int, Endpoint] = {}
        self._misleading: set[Endpoint] = set()

    def learn(self, cluster_id: str, brokers: Iterable[Broker]) -> None:
        """Take in what the metadata of the cluster says."""
        found = {broker.id: Endpoint(broker.host, broker.port) for broker in brokers}
        with self._lock:
            if (self._learned and cluster_id != self._learned) or found == self._newest:
                return
            self._learned, self._newest = cluster_id, found
            self._brokers |= found
            self._misleading.difference_update(found.values())
            if self._folder is not None:
                with suppress(OSError):  # One way less for a later session, and none for this one.
                    from breakglass.services.guard.lock import file_name
                    from breakglass.services.rights import make_folders

                    path = self._folder / f"{file_name(self._learned)}.json"
                    before = _read(path)
                    given = self._given | (before.given if before else frozenset())
                    document = {
                        "schema": SCHEMA,
                        "at_ns": time.time_ns(),
                        "cluster_id": self._learned,
                        "given": sorted([at.host, at.port] for at in given),
                        "brokers": {id: [at.host, at.port] for id, at in self._brokers.items()},
                    }
                    make_folders(self._folder)
                    replace_regular(path, json.dumps(document).encode(), 0o600)

    @property
    def learned(self) -> str:
        """The cluster that the given addresses led to; empty before this session has read any."""
        return self._learned

    @property
    def newest(self) -> tuple[Endpoint, ...]:
        """The addresses in the newest metadata; none before this session has read any."""
        return tuple(self._newest.values())

    def others(self) -> dict[int, Endpoint]:
        """Where each broker was, by the metadata of this session or, before it has any, of others.

        The files are looked at only then.
        """
        with self._lock:
            return dict(self._brokers if self._learned else self._from_file())

    def misleads(self, address: Endpoint) -> bool:
        """Whether another cluster was found at *address*."""
        return not self._misleading.isdisjoint(_plain((address,)))

    def is_misled(self, cluster_id: str) -> bool:
        """Whether a broker of *cluster_id* is of another cluster than the known addresses."""
        return bool(self._cluster_id) and cluster_id != self._cluster_id

    def forget(self, address: Endpoint) -> None:
        """Another cluster answers at *address*."""
        with self._lock:
            self._misleading.update(_plain((address,)))

    @property
    def _cluster_id(self) -> str:
        if self._learned:
            return self._learned
        found = self._newest_file()
        return "" if found is None else found.cluster_id

    def _from_file(self) -> Mapping[int, Endpoint]:
        found = self._newest_file()
        return {} if found is None else found.brokers

    def _newest_file(self) -> _Remembered | None:
        """The cluster that one of the given addresses led to last."""
        if self._folder is None:
            return None
        files = sorted(self._folder.glob("*.json"))[:MOST_CLUSTERS]
        found = [one for path in files if (one := _read(path)) and self._given & one.given]
        return max(found, key=lambda one: one.at_ns, default=None)


def _read(path: Path) -> _Remembered | None:
    """What *path* has; None where it is not what a session wrote."""
    try:
        read = json.loads(read_regular(path, MOST_BYTES))
        if read["schema"] != SCHEMA:
            return None
        return _Remembered(
            int(read["at_ns"]),
            str(read["cluster_id"]),
            frozenset(Endpoint(str(host), int(port)) for host, port in read["given"]),
            {int(id): Endpoint(str(at[0]), int(at[1])) for id, at in read["brokers"].items()},
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _plain(addresses: Iterable[Endpoint]) -> Iterator[Endpoint]:
    """Without what a certificate has to say."""
    return (Endpoint(address.host, address.port) for address in addresses)
