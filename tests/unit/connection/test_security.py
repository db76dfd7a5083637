"""One set of settings, two clients: SASL exchanges and confluent-kafka's configuration."""

from __future__ import annotations

import base64
import hashlib
import hmac
import json
import logging
from typing import Any

import pytest
from confluent_kafka import Consumer

from breakglass.services.connection.sasl import (
    KerberosLogin,
    OAuthLogin,
    PasswordLogin,
    SaslSettings,
    UnsecuredToken,
)
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.security import (
    ClientSecurity,
    SaslExchange,
    confluent_config,
    reached_by_librdkafka,
)
from breakglass.services.connection.settings import ConnectionSettings, Endpoint, SecurityProtocol
from breakglass.services.connection.tls import TlsSettings
from breakglass.services.errors import AuthenticationFailed, BadConnectionSettings

SALT = b"salt"
ROUNDS = 4096


def settings(sasl: SaslSettings | None = None, **more: Any) -> ConnectionSettings:
    """Return settings with that login."""
    return ConnectionSettings(bootstrap_servers=(Endpoint("b1", 9092),), sasl=sasl, **more)


def exchange(sasl: SaslSettings) -> SaslExchange:
    """Return a new exchange of that login."""
    begun = ClientSecurity(settings(sasl)).sasl("b1")
    assert begun is not None
    assert begun[0] == sasl.mechanism
    return begun[1]


def password_login(mechanism: str, user: str = "ops") -> SaslSettings:
    """Return a login with a password."""
    return SaslSettings(mechanism, PasswordLogin(user, Secret("hunter2")))


class ScramServer:
    """The broker's side of RFC 5802, for one user whose password is hunter2."""

    def __init__(self, algorithm: str) -> None:
        self._algorithm = algorithm
        self._salted = hashlib.pbkdf2_hmac(algorithm, b"hunter2", SALT, ROUNDS)

    def first(self, client_first: bytes) -> bytes:
        """Answer ``n,,n=USER,r=NONCE``."""
        self._bare = client_first.decode().removeprefix("n,,")
        self.user, nonce = (part.partition("=")[2] for part in self._bare.split(",", 1))
        salt = base64.b64encode(SALT).decode()
        self._first = f"r={nonce}server,s={salt},i={ROUNDS}"
        return self._first.encode()

    def final(self, client_final: bytes) -> bytes:
        """Check the proof and answer with ours."""
        without_proof, _, proof = client_final.decode().rpartition(",p=")
        signed = f"{self._bare},{self._first},{without_proof}".encode()
        client_key = self._hmac(self._salted, b"Client Key")
        stored_key = hashlib.new(self._algorithm, client_key).digest()
        signature = self._hmac(stored_key, signed)
        expected = bytes(a ^ b for a, b in zip(client_key, signature, strict=True))
        assert base64.b64decode(proof) == expected
        server_key = self._hmac(self._salted, b"Server Key")
        return b"v=" + base64.b64encode(self._hmac(server_key, signed))

    def _hmac(self, key: bytes, message: bytes) -> bytes:
        return hmac.digest(key, message, self._algorithm)


def test_plain_sends_user_and_password_once() -> None:
    login = exchange(password_login("PLAIN"))
    assert login.auth_bytes() == b"ops\0ops\0hunter2"
    login.receive(b"")
    assert login.is_done()
    assert login.is_authenticated()


@pytest.mark.parametrize(
    ("mechanism", "algorithm"), [("SCRAM-SHA-256", "sha256"), ("SCRAM-SHA-512", "sha512")]
)
def test_scram_proves_the_password_without_sending_it(mechanism: str, algorithm: str) -> None:
    login, server = exchange(password_login(mechanism)), ScramServer(algorithm)
    login.receive(server.first(login.auth_bytes()))
    login.receive(server.final(login.auth_bytes()))
    assert login.is_done()
    assert login.is_authenticated()


def test_scram_writes_commas_and_equal_signs_of_a_user_as_rfc_5802_asks() -> None:
    login, server = exchange(password_login("SCRAM-SHA-256", "a=b,c")), ScramServer("sha256")
    server.first(login.auth_bytes())
    assert server.user == "a=3Db=2Cc"
    assert exchange(password_login("PLAIN", "a=b,c")).auth_bytes().startswith(b"a=b,c\0")


@pytest.mark.parametrize("answer", [b"r=other,s=c2FsdA==,i=4096", b"nonsense", b"e=other-error"])
def test_a_broker_that_does_not_speak_scram_is_not_trusted(answer: bytes) -> None:
    login = exchange(password_login("SCRAM-SHA-256"))
    login.auth_bytes()
    with pytest.raises(AuthenticationFailed):
        login.receive(answer)


def test_a_broker_that_does_not_know_the_password_is_not_trusted() -> None:
    login, server = exchange(password_login("SCRAM-SHA-256")), ScramServer("sha256")
    login.receive(server.first(login.auth_bytes()))
    login.auth_bytes()
    with pytest.raises(AuthenticationFailed):
        login.receive(b"v=" + base64.b64encode(b"\0" * 32))


def test_oauthbearer_sends_token_and_extensions() -> None:
    claims = UnsecuredToken({"unsecuredLoginStringClaim_sub": Secret("ops")})
    sasl = SaslSettings("OAUTHBEARER", OAuthLogin(claims, {"team": "sre"}))
    sent = exchange(sasl).auth_bytes().decode()
    header, bearer, extension, *rest = sent.split("\x01")
    assert (header, extension, rest) == ("n,,", "team=sre", ["", ""])
    payload = bearer.removeprefix("auth=Bearer ").split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(payload + "=="))["sub"] == "ops"


def test_confluent_kafka_is_told_where_and_how_long() -> None:
    connection = ConnectionSettings(
        bootstrap_servers=(Endpoint("b1", 9092), Endpoint("::1", 9093)),
        client_id="me",
        request_timeout_ms=900_000,
        connect_timeout_ms=10,
    )
    assert dict(confluent_config(connection)) == {
        "bootstrap.servers": "b1:9092,[::1]:9093",
        "client.id": "me",
        "security.protocol": "PLAINTEXT",
        "client.dns.lookup": "use_all_dns_ips",
        "socket.timeout.ms": 300_000,
        "socket.connection.setup.timeout.ms": 1000,
        "metadata.recovery.strategy": "none",
    }


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_confluent_kafka_is_told_the_login_and_takes_it(mechanism: str) -> None:
    connection = settings(
        password_login(mechanism),
        security_protocol=SecurityProtocol.SASL_SSL,
        tls=TlsSettings(check_hostname=False),
    )
    config = confluent_config(connection)
    assert config["security.protocol"] == "SASL_SSL"
    assert config["sasl.mechanism"] == mechanism
    assert (config["sasl.username"], config["sasl.password"]) == ("ops", "hunter2")
    assert config["ssl.endpoint.identification.algorithm"] == "none"
    config["bootstrap.servers"] = "127.0.0.1:1"
    Consumer({**config, "group.id": "g"}, logger=logging.getLogger("test.confluent")).close()


def test_confluent_kafka_asks_us_for_tokens() -> None:
    claims = UnsecuredToken({"unsecuredLoginStringClaim_sub": Secret("ops")})
    config = confluent_config(
        settings(SaslSettings("OAUTHBEARER", OAuthLogin(claims, {"team": "sre"})))
    )
    token, expires_at, principal, extensions = config["oauth_cb"]("")
    assert token.count(".") == 2
    assert expires_at > 0
    assert (principal, extensions) == ("ops", {"team": "sre"})


KERBEROS = SaslSettings("GSSAPI", KerberosLogin("kafka"))


def test_confluent_kafka_cannot_do_kerberos() -> None:
    with pytest.raises(BadConnectionSettings):
        confluent_config(settings(KERBEROS))


@pytest.mark.parametrize(
    ("connection", "reached"),
    [
        (settings(), True),
        (settings(password_login("PLAIN")), True),
        (settings(KERBEROS), False),
        (settings(listener="vpn"), False),
        (settings(broker_addresses={1: Endpoint("localhost", 19092)}), False),
    ],
    ids=["plain", "login", "Kerberos", "listener", "addresses"],
)
def test_what_librdkafka_cannot_reach_by_itself_goes_by_the_relay(
    connection: ConnectionSettings, *, reached: bool
) -> None:
    assert reached_by_librdkafka(connection) is reached
