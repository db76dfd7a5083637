"""Kafka's sasl.* keys: the logins that work, and a clear word for those that cannot."""

import importlib.util
from pathlib import Path

import pytest

from breakglass.services.connection.properties import Properties, Property
from breakglass.services.connection.sasl import (
    KerberosLogin,
    OAuthLogin,
    SaslSettings,
    TokenFile,
    UnsecuredToken,
    read_sasl,
)
from breakglass.services.connection.secret import Secret
from breakglass.services.errors import BadConnectionSettings

PACKAGE = "org.apache.kafka.common.security"
PLAIN = f"{PACKAGE}.plain.PlainLoginModule required"
SCRAM = f"{PACKAGE}.scram.ScramLoginModule required"
OAUTH = f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required"
URL = "sasl.oauthbearer.token.endpoint.url"


def read(mechanism: str | None, jaas: str | None, **more: str) -> SaslSettings:
    """The settings of a mechanism and a JAAS line; other keys have _ for a dot."""
    values = {"sasl.mechanism": mechanism, "sasl.jaas.config": jaas}
    values |= {key.replace("_", "."): value for key, value in more.items()}
    entries = {
        key: Property(Secret(value), f"f line {line}")
        for line, (key, value) in enumerate(values.items(), 1)
        if value is not None
    }
    return read_sasl(Properties(entries, "f"))


@pytest.mark.parametrize(
    ("mechanism", "jaas", "said"),
    [
        ("PLAIN", None, "f: sasl.jaas.config"),
        ("PLAIN", "nonsense", "f line 2: sasl.jaas.config"),
        ("PLAIN", f'{PLAIN} username="ops";', "has no password"),
        ("PLAIN", f'{PLAIN} password="x";', "has no username"),
        ("SCRAM-SHA-512", f'{OAUTH} username="x" password="y";', "use ScramLoginModule"),
        ("SCRAM-SHA-512", f"{SCRAM} username=a password=b tokenauth=true;", "delegation token"),
        ("SCRAM-SHA-1", f"{SCRAM} username=a password=b;", "PLAIN, SCRAM-SHA-256"),
        ("OAUTHBEARER", f"{OAUTH};", URL),
        (None, f"{PLAIN} username=a password=b;", "Kerberos"),
    ],
)
def test_what_cannot_work_has_a_remedy(mechanism: str | None, jaas: str | None, said: str) -> None:
    with pytest.raises(BadConnectionSettings) as refused:
        read(mechanism, jaas)
    assert said in str(refused.value)


def test_kerberos_needs_a_package_and_takes_a_service_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: None)
    with pytest.raises(BadConnectionSettings, match=r"line 1: .*gssapi"):
        read("GSSAPI", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda _: object())
    jaas = 'com.sun.security.auth.module.Krb5LoginModule required serviceName="kafka";'
    by_key = read("GSSAPI", None, sasl_kerberos_service_name="kafka")
    assert by_key.login == read("GSSAPI", jaas).login == KerberosLogin("kafka")


def test_tokens_come_from_a_file_or_unsecured_from_the_jaas_line() -> None:
    of_file = read("OAUTHBEARER", f"{OAUTH};", **{URL.replace(".", "_"): "file:///run/a%20b"})
    assert of_file.login == OAuthLogin(TokenFile(Path("/run/a b")))
    line = f'{OAUTH} unsecuredLoginStringClaim_sub="ops" unsecuredLoginExtension_team="sre";'
    claims = UnsecuredToken({"unsecuredLoginStringClaim_sub": Secret("ops")})
    assert read("OAUTHBEARER", line).login == OAuthLogin(claims, {"team": "sre"})


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        ("sasl.login.callback.handler.class", "com.example.AwsHandler", "Java class"),
        ("sasl.oauthbearer.jwt.retriever.class", "x.JwtBearerJwtRetriever", "retriever"),
        ("sasl.oauthbearer.assertion.file", "/jwt", "assertion"),
        (URL, "idp/token", "is not a URL"),
        (URL, "ftp://idp/token", "is not a URL"),
        (URL, "https://idp/token", "client.credentials.client.id"),
    ],
)
def test_oauth_that_only_java_can_do_is_refused(key: str, value: str, said: str) -> None:
    with pytest.raises(BadConnectionSettings) as refused:
        read("OAUTHBEARER", f"{OAUTH};", **{key.replace(".", "_"): value})
    assert said in str(refused.value)
