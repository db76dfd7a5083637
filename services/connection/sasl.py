"""Reads SASL settings from Kafka's ``sasl.*`` keys and JAAS options: one login per mechanism."""

from __future__ import annotations

import importlib.util
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from breakglass.services.connection.properties import Properties, Property, require_own
from breakglass.services.connection.secret import JaasEntry, JaasProblem, Secret, parse_jaas
from breakglass.services.connection.tls import TlsSettings, read_tls

ENDPOINT = "sasl.oauthbearer.token.endpoint.url"
CLIENT_ID = "sasl.oauthbearer.client.credentials.client.id"
CLIENT_SECRET = "sasl.oauthbearer.client.credentials.client.secret"  # noqa: S105 (a key's name)
SCOPE = "sasl.oauthbearer.scope"
URLENCODE = "sasl.oauthbearer.header.urlencode"
CONNECT_TIMEOUT = "sasl.login.connect.timeout.ms"
READ_TIMEOUT = "sasl.login.read.timeout.ms"
HANDLER = "sasl.login.callback.handler.class"
RETRIEVER = "sasl.oauthbearer.jwt.retriever.class"
DEFAULT_TIMEOUT_MS = 10_000

OAUTH_KEYS = frozenset(
    {
        ENDPOINT,
        CLIENT_ID,
        CLIENT_SECRET,
        SCOPE,
        URLENCODE,
        CONNECT_TIMEOUT,
        READ_TIMEOUT,
        HANDLER,
        RETRIEVER,
    }
)

_HANDLERS = ("OAuthBearerLoginCallbackHandler", "OAuthBearerUnsecuredLoginCallbackHandler")
_RETRIEVERS = ("DefaultJwtRetriever", "ClientCredentialsJwtRetriever", "FileJwtRetriever")


@dataclass(frozen=True, slots=True)
class TokenEndpoint:
    """An identity provider that gives tokens for client credentials (KIP-768)."""

    url: str
    client_id: str
    client_secret: Secret
    scope: str | None
    urlencode: bool
    """Encode id and secret in the Authorization header (RFC 6749 section 2.3.1)."""
    timeout_ms: int
    tls: TlsSettings = field(default_factory=TlsSettings)


@dataclass(frozen=True, slots=True)
class TokenFile:
    """A file with a token, read again for each login."""

    path: Path


@dataclass(frozen=True, slots=True)
class UnsecuredToken:
    """Claims of a token that nobody signs, for clusters under test (KIP-255)."""

    claims: Mapping[str, Secret]
    """JAAS options whose names begin with ``unsecuredLogin``."""


@dataclass(frozen=True, slots=True)
class OAuthLogin:
    """OAUTHBEARER."""

    source: TokenEndpoint | TokenFile | UnsecuredToken
    extensions: Mapping[str, str] = field(default_factory=dict)
    """SASL extensions sent with each token (KIP-342)."""


def read_oauth(properties: Properties, entry: JaasEntry) -> OAuthLogin:
    """Read where tokens come from.

    Raises: BadConnectionSettings, also for login classes and assertions that only Java can run.
    """
    _refuse_foreign_classes(properties)
    url = properties.text(ENDPOINT)
    if url is None:
        claims = {
            name: value
            for name, value in entry.options.items()
            if name.startswith("unsecuredLogin") and not name.startswith("unsecuredLoginExtension_")
        }
        if not claims:
            raise properties.error(
                "sasl.mechanism", f"is OAUTHBEARER, which needs {ENDPOINT}; set it"
            )
        return OAuthLogin(UnsecuredToken(claims), _extensions(entry, "unsecuredLoginExtension_"))
    extensions = _extensions(entry, "extension_")
    parts = urlsplit(url)
    if parts.scheme == "file":
        file = TokenFile(Path(unquote(parts.path)))
        require_own(file.path)
        return OAuthLogin(file, extensions)
    if parts.scheme not in ("http", "https") or not parts.hostname:
        raise properties.error(ENDPOINT, "is not a URL; write https://HOST/PATH or file:///PATH")
    return OAuthLogin(_endpoint(properties, entry, url), extensions)


def _refuse_foreign_classes(properties: Properties) -> None:
    for key, ours in ((HANDLER, _HANDLERS), (RETRIEVER, _RETRIEVERS)):
        name = properties.text(key)
        if name is not None and name.rpartition(".")[2] not in ours:
            raise properties.error(
                key,
                f"names {name}, a Java class that cannot run here; use one of {', '.join(ours)}",
            )
    for key in properties:
        if key.startswith("sasl.oauthbearer.assertion."):
            raise properties.error(
                key, f"asks for a client assertion, which does not work here; set {CLIENT_SECRET}"
            )


def _endpoint(properties: Properties, entry: JaasEntry, url: str) -> TokenEndpoint:
    client_id = properties.text(CLIENT_ID) or entry.text("clientId")
    secret = properties.secret(CLIENT_SECRET) or entry.options.get("clientSecret")
    if not client_id or not secret:
        missing = CLIENT_ID if not client_id else CLIENT_SECRET
        raise properties.error(ENDPOINT, f"needs {missing}; set that too")
    # TLS settings for the identity provider, from the JAAS options (JaasOptionsUtils.java).
    jaas = properties["sasl.jaas.config"]
    origin = f"{jaas.origin}: sasl.jaas.config"
    options = {
        name: Property(value, origin, jaas.folder)
        for name, value in entry.options.items()
        if name.startswith("ssl.")
    }
    own = Properties(options, origin)
    require_own(*filter(None, (own.path(name) for name in own if name.endswith(".location"))))
    return TokenEndpoint(
        url=url,
        client_id=client_id,
        client_secret=secret,
        scope=properties.text(SCOPE) or entry.text("scope"),
        urlencode=properties.flag(URLENCODE),
        timeout_ms=max(
            properties.number(CONNECT_TIMEOUT, DEFAULT_TIMEOUT_MS),
            properties.number(READ_TIMEOUT, DEFAULT_TIMEOUT_MS),
        ),
        tls=read_tls(own),
    )


def _extensions(entry: JaasEntry, prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value.reveal()
        for name, value in entry.options.items()
        if name.startswith(prefix)
    }


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
    """How this client authenticates."""

    mechanism: str
    login: PasswordLogin | OAuthLogin | KerberosLogin


def read_sasl(properties: Properties) -> SaslSettings:
    """Read the ``sasl.*`` keys.

    Raises: BadConnectionSettings, also for settings that only work with Kafka's own tools:
        Kerberos without the gssapi package, delegation tokens, custom login classes.
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
            key,
            "GSSAPI (Kerberos) needs the Python package gssapi; install it with Breakglass",
        )
    entry = parse_jaas(properties.secret(JAAS) or Secret(""))
    in_jaas = entry.text("serviceName") if isinstance(entry, JaasEntry) else None
    service = properties.text("sasl.kerberos.service.name") or in_jaas
    if service is None:
        raise properties.error(
            "sasl.kerberos.service.name", "is missing; set the brokers' service, often kafka"
        )
    return KerberosLogin(service)
