"""Reads how to connect, as one frozen value, from Kafka's own client properties.

Modules that read key stores, passwords and tokens are imported only if a cluster needs them.
"""

from __future__ import annotations

import socket
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from breakglass.services.connection.endpoint import Endpoint, parse_endpoints
from breakglass.services.connection.properties import Properties
from breakglass.services.errors import NoBrokerNamed

if TYPE_CHECKING:
    from breakglass.services.connection.sasl import SaslSettings
    from breakglass.services.connection.tls import TlsSettings


__all__ = [
    "ConnectionSettings",
    "Endpoint",
    "SecurityProtocol",
    "has_effect",
    "keys_without_effect",
    "settings_from",
]

BOOTSTRAP = "bootstrap.servers"
CLIENT_ID = "client.id"
DNS_LOOKUP = "client.dns.lookup"
PROTOCOL = "security.protocol"
REQUEST_TIMEOUT = "request.timeout.ms"
CONNECT_TIMEOUT = "socket.connection.setup.timeout.ms"

DNS_LOOKUPS = ("use_all_dns_ips", "resolve_canonical_bootstrap_servers_only")

_KEYS = frozenset({BOOTSTRAP, CLIENT_ID, DNS_LOOKUP, PROTOCOL, REQUEST_TIMEOUT, CONNECT_TIMEOUT})


class SecurityProtocol(StrEnum):
    """What a listener speaks (SecurityProtocol.java)."""

    PLAINTEXT = "PLAINTEXT"
    SSL = "SSL"
    SASL_PLAINTEXT = "SASL_PLAINTEXT"
    SASL_SSL = "SASL_SSL"

    @property
    def uses_tls(self) -> bool:
        return self in (SecurityProtocol.SSL, SecurityProtocol.SASL_SSL)

    @property
    def uses_sasl(self) -> bool:
        return self in (SecurityProtocol.SASL_PLAINTEXT, SecurityProtocol.SASL_SSL)


@dataclass(frozen=True, slots=True)
class ConnectionSettings:
    """All settings of a connection; its secrets are never shown (connection/secret.py)."""

    bootstrap_servers: tuple[Endpoint, ...]
    security_protocol: SecurityProtocol = SecurityProtocol.PLAINTEXT
    tls: TlsSettings | None = None
    """None: no TLS."""
    sasl: SaslSettings | None = None
    """None: no SASL."""
    client_id: str = "breakglass"
    broker_addresses: Mapping[int, Endpoint] = field(default_factory=dict)
    """Addresses by broker id, which override those that the cluster advertises."""
    listener: str | None = None
    """A listener still to be chosen with `endpoint.listener_endpoints`."""
    dns_lookup: str = DNS_LOOKUPS[0]
    """Used by confluent-kafka only: our own sockets try every address of a name."""
    request_timeout_ms: int = 30_000
    connect_timeout_ms: int = 10_000
    notes: tuple[str, ...] = ()
    """What an operator should know about the files: keys without effect, loose permissions."""


def settings_from(properties: Properties) -> ConnectionSettings:
    """Read Kafka's own keys, and the key stores they name.

    Raises: BadConnectionSettings, naming file and line where there are any.
    """
    protocols = tuple(str(protocol) for protocol in SecurityProtocol)
    protocol = SecurityProtocol(properties.choice(PROTOCOL, protocols, SecurityProtocol.PLAINTEXT))
    servers = properties.text(BOOTSTRAP)
    if servers is None:
        # Most likely one of these was to name it.
        unread = keys_without_effect(properties)
        raise NoBrokerNamed(
            "no broker is named: give --bootstrap-server HOST:PORT, or --profile NAME, or set "
            "BREAKGLASS_BOOTSTRAP_SERVER." + "".join(f" {note}" for note in unread)
        )
    return ConnectionSettings(
        bootstrap_servers=parse_endpoints(servers, properties[BOOTSTRAP].origin),
        security_protocol=protocol,
        tls=_tls(properties) if protocol.uses_tls else None,
        sasl=_sasl(properties) if protocol.uses_sasl else None,
        client_id=properties.text(CLIENT_ID) or "breakglass",
        dns_lookup=properties.choice(DNS_LOOKUP, DNS_LOOKUPS, DNS_LOOKUPS[0]),
        request_timeout_ms=properties.number(REQUEST_TIMEOUT, 30_000),
        connect_timeout_ms=properties.number(CONNECT_TIMEOUT, 10_000),
    )


def _tls(properties: Properties) -> TlsSettings:
    from breakglass.services.connection.tls import read_tls

    return read_tls(properties)


def _sasl(properties: Properties) -> SaslSettings:
    from breakglass.services.connection.sasl import read_sasl

    return read_sasl(properties)


def keys_without_effect(properties: Properties) -> Iterator[str]:
    """A sentence for each key that nothing here reads, with where it is written."""
    for key, entry in properties.items():
        if not has_effect(key):
            yield f"{entry.origin}: {key} has no effect here."


def has_effect(key: str) -> bool:
    """Whether a connection reads the client setting *key*."""
    return key in _KEYS or key.startswith("config.providers") or _is_of_security(key)


def _is_of_security(key: str) -> bool:
    from breakglass.services.connection.sasl import OAUTH_KEYS, SASL_KEYS
    from breakglass.services.connection.tls import TLS_KEYS

    return key in TLS_KEYS or key in SASL_KEYS or key in OAUTH_KEYS


class Plaintext:
    """Leaves a socket as it is, like `ClientSecurity` with neither TLS nor SASL."""

    def wrap(self, sock: socket.socket, host: str) -> socket.socket:  # noqa: ARG002
        """The socket itself."""
        return sock

    def sasl(self, host: str, seconds: float) -> tuple[str, Any] | None:  # noqa: ARG002
        """No login."""
        return None
