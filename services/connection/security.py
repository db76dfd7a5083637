"""Applies connection settings to our own sockets, and writes them as confluent-kafka's."""

from __future__ import annotations

import math
import socket
import ssl
from typing import Any

from breakglass.services.connection.oauth import SHOWN, TokenSource
from breakglass.services.connection.sasl import (
    KerberosLogin,
    OAuthLogin,
    PasswordLogin,
    SaslSettings,
)
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.connection.tls import TlsSettings, client_context
from breakglass.services.errors import (
    AuthenticationFailed,
    BadConnectionSettings,
    BreakglassError,
    ConnectFailed,
)
from breakglass.services.words.inert import bounded

LONGEST_SOCKET_TIMEOUT_MS = 300_000
"""librdkafka's limit of ``socket.timeout.ms``."""


class ClientSecurity:
    """How our own sockets become authenticated connections. For use by many threads.

    Raises: BadConnectionSettings, when it is made, for key material that does not work.
    """

    def __init__(self, settings: ConnectionSettings) -> None:
        self._sasl = settings.sasl
        self._context = client_context(settings.tls) if settings.tls is not None else None
        self._tokens = (
            None
            if settings.sasl is None or not isinstance(settings.sasl.login, OAuthLogin)
            else TokenSource(settings.sasl.login.source)
        )

    def wrap(self, sock: socket.socket, host: str) -> socket.socket:
        """The socket after its TLS handshake, or as it was where TLS is off.

        *host* is the name that the certificate must have. The handshake is bounded by the socket's
        timeout; a socket that fails is closed.

        Raises:
            ConnectFailed: the TLS handshake fails, with the likely cause.
            OSError: the connection broke, or TimeoutError.
        """
        if self._context is None:
            return sock
        try:
            return self._context.wrap_socket(sock, server_hostname=host)
        except ssl.SSLError as error:
            sock.close()
            raise ConnectFailed(_tls_failure(host, error)) from error

    def sasl(self, host: str, seconds: float = math.inf) -> tuple[str, SaslExchange] | None:
        """Mechanism name and a new exchange of it, or None without SASL.

        *seconds* are left for the login, a token of an identity provider included.
        """
        if self._sasl is None:
            return None
        from kafka.net.sasl import get_sasl_mechanism

        mechanism = get_sasl_mechanism(self._sasl.mechanism)
        inner = mechanism(host=host, **_mechanism_config(self._sasl, self._tokens, seconds))
        return self._sasl.mechanism, SaslExchange(inner, host, self._sasl, self._tokens)


FEWEST_ITERATIONS = 4096
"""Of SCRAM (RFC 7677 section 4): with fewer a false broker can guess the password."""
MOST_ROUNDS = 10
"""Answers of a broker in one login; Kerberos needs three."""


class SaslExchange:
    """One login by kafka-python's mechanism, whose errors are turned into ours."""

    def __init__(
        self, mechanism: Any, host: str, sasl: SaslSettings, tokens: TokenSource | None
    ) -> None:
        self._mechanism = mechanism
        self._host = host
        self._sasl = sasl
        self._sent: Secret | TokenSource | None = tokens
        if isinstance(sasl.login, PasswordLogin):
            self._sent = sasl.login.password
        self._rounds = 0

    def auth_bytes(self) -> bytes:
        """What to send next.

        Raises:
            AuthenticationFailed: there is no token or ticket, or the broker asks without end.
            NoIdentityProvider: the provider of tokens does not answer.
        """
        self._rounds += 1
        if self._rounds > MOST_ROUNDS:
            raise self._refused("does not end")
        try:
            return bytes(self._mechanism.auth_bytes())
        except BreakglassError:
            raise
        except Exception as error:
            raise self._refused(f"cannot go on ({type(error).__name__})") from error

    def receive(self, answer: bytes | None) -> None:
        """Take the broker's answer.

        Raises: AuthenticationFailed when the broker does not prove that it knows the password.
        """
        few = False
        try:
            if answer is None:
                raise ValueError
            if self._sasl.mechanism.startswith("SCRAM"):
                asked = [part[2:] for part in answer.split(b",") if part.startswith(b"i=")]
                few = any(int(number) < FEWEST_ITERATIONS for number in asked)
            if not few:
                self._mechanism.receive(answer)
                return
        except Exception:  # noqa: BLE001, S110 - libraries read what a stranger may have sent
            pass
        if few:
            raise self._refused(
                f"asks for fewer than {FEWEST_ITERATIONS:,} iterations of SCRAM, from which the "
                "password could be guessed"
            )
        raise self._refused("got an answer that cannot be right")

    def inert(self, text: str) -> str:
        """What the broker says of the login, without what it was sent for it."""
        return bounded(text if self._sent is None else self._sent.masked_in(text), SHOWN)

    def _refused(self, why: str) -> AuthenticationFailed:
        return AuthenticationFailed(
            f"the SASL login at {self._host} {why}: check that it is a broker of yours, and "
            "sasl.mechanism"
        )

    def is_done(self) -> bool:
        """Whether nothing more is to be sent."""
        return bool(self._mechanism.is_done())

    def is_authenticated(self) -> bool:
        """Whether the broker accepted the login."""
        return bool(self._mechanism.is_authenticated())


class ClientConfig(dict[str, Any]):
    """A configuration of confluent-kafka, whose ``repr`` shows only its keys."""

    def __repr__(self) -> str:
        return f"ClientConfig({', '.join(sorted(self))})"

    __str__ = __repr__


def confluent_config(settings: ConnectionSettings) -> ClientConfig:
    """The part of confluent-kafka's configuration that says where and how to connect.

    Pass ``logger=`` to the client, because librdkafka otherwise writes to file descriptor 2.
    librdkafka uses no TLS versions, and connects to brokers by their advertised names alone; where
    that is not enough (`reached_by_librdkafka`), it does not reach them.
    """
    config = ClientConfig(
        {
            "bootstrap.servers": ",".join(map(str, settings.bootstrap_servers)),
            "client.id": settings.client_id,
            "security.protocol": settings.security_protocol.value,
            "client.dns.lookup": settings.dns_lookup,
            "socket.timeout.ms": min(settings.request_timeout_ms, LONGEST_SOCKET_TIMEOUT_MS),
            "socket.connection.setup.timeout.ms": max(1000, settings.connect_timeout_ms),
            # Otherwise a client that loses all its brokers for a moment, as when its only known
            # broker restarts, forgets them, and may wait for a forgotten broker forever.
            "metadata.recovery.strategy": "none",
        }
    )
    if settings.tls is not None:
        config.update(_confluent_tls(settings.tls))
    if settings.sasl is not None:
        config.update(_confluent_sasl(settings.sasl))
    return config


def reached_by_librdkafka(settings: ConnectionSettings) -> bool:
    """Whether librdkafka reaches the brokers by itself.

    It knows neither other addresses of brokers nor other listeners, and its wheels are built
    without Kerberos.
    """
    kerberos = settings.sasl is not None and isinstance(settings.sasl.login, KerberosLogin)
    return not (settings.broker_addresses or settings.listener or kerberos)


def _confluent_tls(tls: TlsSettings) -> dict[str, Any]:
    config: dict[str, Any] = {
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "none"
    }
    if tls.trusted_pem is not None:
        config["ssl.ca.pem"] = tls.trusted_pem
    if tls.certificate is not None:
        config["ssl.certificate.pem"] = tls.certificate.chain_pem
        config["ssl.key.pem"] = tls.certificate.key_pem.reveal()
        if tls.certificate.key_password is not None:
            config["ssl.key.password"] = tls.certificate.key_password.reveal()
    return config


def _confluent_sasl(sasl: SaslSettings) -> dict[str, Any]:
    config: dict[str, Any] = {"sasl.mechanism": sasl.mechanism}
    if isinstance(sasl.login, PasswordLogin):
        config["sasl.username"] = sasl.login.username
        config["sasl.password"] = sasl.login.password.reveal()
    elif isinstance(sasl.login, OAuthLogin):
        config["oauth_cb"] = _oauth_callback(sasl.login)
    else:
        raise BadConnectionSettings(
            "librdkafka does not speak Kerberos here: its wheels are built without it"
        )
    return config


def _oauth_callback(login: OAuthLogin) -> Any:
    tokens = TokenSource(login.source)

    def callback(_config: str) -> tuple[str, float, str, dict[str, str]]:
        token = tokens.token()
        return token.value.reveal(), token.expires_at, token.principal, dict(login.extensions)

    return callback


def _mechanism_config(
    sasl: SaslSettings, tokens: TokenSource | None, seconds: float
) -> dict[str, Any]:
    """Arguments of kafka-python's mechanism classes."""
    if isinstance(sasl.login, PasswordLogin):
        # Escape = and , in a SCRAM user name (RFC 5802), which kafka-python does not do.
        return {
            "sasl_mechanism": sasl.mechanism,
            "sasl_plain_username": (
                sasl.login.username
                if sasl.mechanism == "PLAIN"
                else sasl.login.username.replace("=", "=3D").replace(",", "=2C")
            ),
            "sasl_plain_password": sasl.login.password.reveal(),
        }
    if isinstance(sasl.login, OAuthLogin):
        source = tokens or TokenSource(sasl.login.source)
        return {"sasl_oauth_token_provider": _token_provider(sasl.login, source, seconds)}
    return {"sasl_kerberos_service_name": sasl.login.service_name}


def _token_provider(login: OAuthLogin, tokens: TokenSource, seconds: float) -> Any:
    from kafka.net.sasl.oauth import AbstractTokenProvider

    class Provider(AbstractTokenProvider):  # type: ignore[misc]
        def token(self) -> str:
            return tokens.token(seconds).value.reveal()

        def extensions(self) -> dict[str, str]:
            return dict(login.extensions)

    return Provider()


_NO_TLS = frozenset(
    (
        *("WRONG_VERSION_NUMBER", "RECORD_LAYER_FAILURE"),
        *("UNEXPECTED_EOF_WHILE_READING", "HTTP_REQUEST"),
    )
)
"""OpenSSL's reasons when the server does not speak TLS; since 3.5 the second replaces the first."""


def _tls_failure(host: str, error: ssl.SSLError) -> str:
    if isinstance(error, ssl.SSLCertVerificationError):
        if "ostname mismatch" in error.verify_message or "IP address" in error.verify_message:
            return (
                f"the certificate of {host} is for another host name: connect under the name it "
                "bears, or set ssl.endpoint.identification.algorithm to nothing"
            )
        return (
            f"the certificate of {host} is not trusted ({error.verify_message}): name the "
            "authority that signed it in ssl.truststore.location"
        )
    if error.reason in _NO_TLS:
        return f"{host} speaks no TLS on this port: check the port and security.protocol"
    return (
        f"TLS with {host} does not come about ({error.reason or error}): check ssl.keystore.* if "
        "the broker asks for a certificate, and ssl.enabled.protocols"
    )
