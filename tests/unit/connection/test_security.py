"""One set of settings, two clients: SASL exchanges and confluent-kafka's configuration."""

import base64
import json
import logging
import re
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
)
from breakglass.services.connection.settings import ConnectionSettings, Endpoint, SecurityProtocol
from breakglass.services.connection.tls import TlsSettings
from breakglass.services.errors import AuthenticationFailed, BadConnectionSettings


def settings(sasl: SaslSettings | None = None, **more: Any) -> ConnectionSettings:
    return ConnectionSettings(bootstrap_servers=(Endpoint("b1", 9092),), sasl=sasl, **more)


def exchange(sasl: SaslSettings) -> SaslExchange:
    begun = ClientSecurity(settings(sasl)).sasl("b1")
    assert begun is not None
    assert begun[0] == sasl.mechanism
    return begun[1]


def password_login(mechanism: str, user: str = "ops") -> SaslSettings:
    return SaslSettings(mechanism, PasswordLogin(user, Secret("hunter2")))


KERBEROS = SaslSettings("GSSAPI", KerberosLogin("kafka"))


@pytest.mark.parametrize("answer", [b"r=other,s=c2FsdA==,i=4096", b"nonsense", b"e=other-error"])
def test_a_broker_that_does_not_speak_scram_is_not_trusted(answer: bytes) -> None:
    login = exchange(password_login("SCRAM-SHA-256"))
    login.auth_bytes()
    with pytest.raises(AuthenticationFailed):
        login.receive(answer)


def test_a_broker_that_does_not_know_the_password_is_not_trusted() -> None:
    """What a user's name may not hold is written as RFC 5802 asks."""
    login = exchange(password_login("SCRAM-SHA-256", "a=b,c"))
    user, nonce = login.auth_bytes().decode().removeprefix("n,,n=").split(",r=")
    assert user == "a=3Db=2Cc"
    login.receive(f"r={nonce}server,s=c2FsdA==,i=4096".encode())
    login.auth_bytes()
    with pytest.raises(AuthenticationFailed):
        login.receive(b"v=" + base64.b64encode(b"\0" * 32))


@pytest.mark.parametrize(
    ("mechanism", "answer"),
    [
        *((mechanism, None) for mechanism in ("PLAIN", "SCRAM-SHA-256", "OAUTHBEARER")),
        ("SCRAM-SHA-256", b"\0\0"),
        ("SCRAM-SHA-256", b"r={},s=c2FsdA==,i=4095"),
        ("SCRAM-SHA-512", b"r={},s=c2FsdA==,i=1,i=4096"),
        ("SCRAM-SHA-256", b"r={},s=c2FsdA==,i=4096"),
        ("SCRAM-SHA-256", b"r={},s=c2FsdA==,i=9999999999"),
        ("SCRAM-SHA-256", b"r={},s=\xff,i=4096"),
        ("OAUTHBEARER", b"\xff\x1b[2J"),
    ],
)
def test_s41_an_answer_to_a_login_is_refused_in_a_sentence_unless_it_can_be_right(
    mechanism: str, answer: bytes | None
) -> None:
    """RFC 7677 section 4: with few iterations whoever asked for them guesses the password."""
    sasl = password_login(mechanism)
    if mechanism == "OAUTHBEARER":
        claims = UnsecuredToken({"unsecuredLoginStringClaim_sub": Secret("ops")})
        sasl = SaslSettings(mechanism, OAuthLogin(claims))
    login = exchange(sasl)
    nonce = login.auth_bytes().rpartition(b"r=")[2]
    if answer is not None:
        answer = answer.replace(b"{}", nonce)
    if answer is not None and answer.endswith(b"==,i=4096") and b"i=1" not in answer:
        login.receive(answer)
        return
    with pytest.raises(AuthenticationFailed) as refused:
        login.receive(answer)
    assert str(refused.value).isprintable()


def test_s41_a_login_that_the_broker_never_ends_is_given_up() -> None:
    claims = UnsecuredToken({"unsecuredLoginStringClaim_sub": Secret("ops")})
    login = exchange(SaslSettings("OAUTHBEARER", OAuthLogin(claims)))

    def answer_without_end() -> None:
        while True:
            login.auth_bytes()
            login.receive(b"{}")

    with pytest.raises(AuthenticationFailed):
        answer_without_end()


def test_s42_what_a_broker_says_of_a_login_is_inert_and_shows_no_secret_that_it_was_sent() -> None:
    claims = UnsecuredToken({"unsecuredLoginStringClaim_sub": Secret("ops")})
    for sasl in (password_login("PLAIN"), SaslSettings("OAUTHBEARER", OAuthLogin(claims))):
        login = exchange(sasl)
        sent = login.auth_bytes().decode()
        secret = re.split("[\0\x01]", sent.removesuffix("\x01\x01"))[-1].removeprefix(
            "auth=Bearer "
        )
        told = login.inert(f"no: {secret}\x1b[2J{secret}")
        assert told == "no: ***\\x1b[2J***"
        half = len(secret) // 2
        for hidden in (
            base64.b64encode(sent.encode()).decode(),
            base64.urlsafe_b64encode(f"xy{secret}".encode()).decode(),
            sent.encode().hex(),
            "".join(f"%{byte:02x}" for byte in secret.encode()),
            *(secret[:half] + mark + secret[half:] for mark in ("\x1b[0m", "\u200b", "\0")),
        ):
            shown = login.inert(f"no: {hidden} for you")
            assert shown in ("***", "no: *** for you"), hidden


def test_oauthbearer_sends_token_and_extensions() -> None:
    claims = UnsecuredToken({"unsecuredLoginStringClaim_sub": Secret("ops")})
    sasl = SaslSettings("OAUTHBEARER", OAuthLogin(claims, {"team": "sre"}))
    sent = exchange(sasl).auth_bytes().decode()
    header, bearer, extension, *rest = sent.split("\x01")
    assert (header, extension, rest) == ("n,,", "team=sre", ["", ""])
    payload = bearer.removeprefix("auth=Bearer ").split(".")[1]
    assert json.loads(base64.urlsafe_b64decode(payload + "=="))["sub"] == "ops"


def test_confluent_kafka_is_told_the_login_and_takes_it() -> None:
    connection = settings(
        password_login("SCRAM-SHA-512"),
        security_protocol=SecurityProtocol.SASL_SSL,
        tls=TlsSettings(check_hostname=False),
    )
    config = confluent_config(connection)
    assert (config["security.protocol"], config["sasl.mechanism"]) == ("SASL_SSL", "SCRAM-SHA-512")
    assert (config["sasl.username"], config["sasl.password"]) == ("ops", "hunter2")
    assert config["ssl.endpoint.identification.algorithm"] == "none"
    config["bootstrap.servers"] = "127.0.0.1:1"
    Consumer({**config, "group.id": "g"}, logger=logging.getLogger("test.confluent")).close()
    with pytest.raises(BadConnectionSettings):
        confluent_config(settings(KERBEROS))


def test_confluent_kafka_asks_us_for_tokens() -> None:
    claims = UnsecuredToken({"unsecuredLoginStringClaim_sub": Secret("ops")})
    config = confluent_config(
        settings(SaslSettings("OAUTHBEARER", OAuthLogin(claims, {"team": "sre"})))
    )
    token, expires_at, principal, extensions = config["oauth_cb"]("")
    assert token.count(".") == 2
    assert expires_at > 0
    assert (principal, extensions) == ("ops", {"team": "sre"})
