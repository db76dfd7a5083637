"""SASL settings from Kafka's ``sasl.*`` keys: one login for each mechanism that can work here."""

from __future__ import annotations

import importlib.util
from dataclasses import dataclass

from breakglass.services.connection.jaas import JaasEntry, JaasProblem, parse_jaas
from breakglass.services.connection.oauth_settings import OAuthLogin, read_oauth
from breakglass.services.connection.properties import Properties
from breakglass.services.connection.secret import Secret

PASSWORD_MECHANISMS = ("PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512")
MECHANISMS = (*PASSWORD_MECHANISMS, "OAUTHBEARER", "GSSAPI")
JAAS = "sasl.jaas.config"

SASL_KEYS = frozenset({"sasl.mechanism", JAAS, "sasl.kerberos.service.name"})


@dataclass(frozen=True, slots=True)
class PasswordLogin:
    """PLAIN and SCRAM."""

    username: str
    password: Secret


@dataclass(frozen=True, slots=True)
class KerberosLogin:
    """GSSAPI, with the ticket that kinit left in the credential cache."""

    service_name: str


@dataclass(frozen=True, slots=True)
class SaslSettings:
    """How to prove who we are."""

    mechanism: str
    login: PasswordLogin | OAuthLogin | KerberosLogin


def read_sasl(properties: Properties) -> SaslSettings:
    """Read the ``sasl.*`` keys.

    Raises: BadConnectionSettings, also for what works with Kafka's own tools but not here:
        Kerberos without the gssapi package, delegation tokens, login classes of others.
    """
    mechanism = properties.choice("sasl.mechanism", MECHANISMS, "GSSAPI")
    if mechanism == "GSSAPI":
        return SaslSettings(mechanism, _kerberos(properties))
    entry = _jaas(properties, mechanism)
    if mechanism == "OAUTHBEARER":
        return SaslSettings(mechanism, read_oauth(properties, entry))
    return SaslSettings(mechanism, _password(properties, entry, mechanism))


def _jaas(properties: Properties, mechanism: str) -> JaasEntry:
    line = properties.secret(JAAS)
    if line is None:
        raise properties.error(
            JAAS, f"is missing; {mechanism} needs it, a java.security.auth.login.config is not read"
        )
    entry = parse_jaas(line)
    if isinstance(entry, JaasProblem):
        raise properties.error(JAAS, f'{entry.reason}; write MODULE required OPTION="VALUE";')
    return entry


def _password(properties: Properties, entry: JaasEntry, mechanism: str) -> PasswordLogin:
    if entry.simple_name not in ("PlainLoginModule", "ScramLoginModule"):
        module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
        raise properties.error(
            JAAS, f"names {entry.simple_name}, but sasl.mechanism is {mechanism}; use {module}"
        )
    if (entry.text("tokenauth") or "").lower() == "true":
        raise properties.error(
            JAAS, "asks for a delegation token (tokenauth), which does not work here; use a user"
        )
    username, password = entry.options.get("username"), entry.options.get("password")
    if not username or not password:
        missing = "username" if not username else "password"
        raise properties.error(JAAS, f'has no {missing}; add {missing}="..." before the semicolon')
    return PasswordLogin(username.reveal(), password)


def _kerberos(properties: Properties) -> KerberosLogin:
    key = "sasl.mechanism"
    if properties.text(key) is None:
        raise properties.error(
            key,
            "is missing, which for Kafka means Kerberos; set it to one of " + ", ".join(MECHANISMS),
        )
    if importlib.util.find_spec("gssapi") is None:
        raise properties.error(
            key, "GSSAPI (Kerberos) needs the Python package gssapi; install it beside Breakglass"
        )
    entry = parse_jaas(properties.secret(JAAS) or Secret(""))
    in_jaas = entry.text("serviceName") if isinstance(entry, JaasEntry) else None
    service = properties.text("sasl.kerberos.service.name") or in_jaas
    if service is None:
        raise properties.error(
            "sasl.kerberos.service.name", "is missing; set the brokers' service, often kafka"
        )
    return KerberosLogin(service)
