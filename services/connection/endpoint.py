"""Parses brokers' addresses as operators write them, and finds the listener they belong to."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from typing import NamedTuple

from breakglass.services.errors import BadConnectionSettings

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
