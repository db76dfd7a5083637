"""OAUTHBEARER settings: where tokens come from, as Kafka's keys and JAAS options say it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from urllib.parse import unquote, urlsplit

from breakglass.services.connection.jaas import JaasEntry
from breakglass.services.connection.properties import Properties, Property
from breakglass.services.connection.secret import Secret
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
_ASSERTION = "sasl.oauthbearer.assertion."


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
    """A file that holds a token, read anew for each login."""

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
        return _unsecured(properties, entry)
    extensions = _extensions(entry, "extension_")
    parts = urlsplit(url)
    if parts.scheme == "file":
        return OAuthLogin(TokenFile(Path(unquote(parts.path))), extensions)
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
        if key.startswith(_ASSERTION):
            raise properties.error(
                key, f"asks for a client assertion, which does not work here; set {CLIENT_SECRET}"
            )


def _endpoint(properties: Properties, entry: JaasEntry, url: str) -> TokenEndpoint:
    client_id = properties.text(CLIENT_ID) or entry.text("clientId")
    secret = properties.secret(CLIENT_SECRET) or entry.options.get("clientSecret")
    if not client_id or not secret:
        missing = CLIENT_ID if not client_id else CLIENT_SECRET
        raise properties.error(ENDPOINT, f"needs {missing}; set that too")
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
        tls=read_tls(_tls_options(properties, entry)),
    )


def _tls_options(properties: Properties, entry: JaasEntry) -> Properties:
    """TLS towards the identity provider is set by JAAS options (JaasOptionsUtils.java)."""
    jaas = properties["sasl.jaas.config"]
    origin = f"{jaas.origin}: sasl.jaas.config"
    options = {
        name: Property(value, origin, jaas.folder)
        for name, value in entry.options.items()
        if name.startswith("ssl.")
    }
    return Properties(options, origin)


def _unsecured(properties: Properties, entry: JaasEntry) -> OAuthLogin:
    claims = {
        name: value
        for name, value in entry.options.items()
        if name.startswith("unsecuredLogin") and not name.startswith("unsecuredLoginExtension_")
    }
    if not claims:
        raise properties.error("sasl.mechanism", f"is OAUTHBEARER, which needs {ENDPOINT}; set it")
    return OAuthLogin(UnsecuredToken(claims), _extensions(entry, "unsecuredLoginExtension_"))


def _extensions(entry: JaasEntry, prefix: str) -> dict[str, str]:
    return {
        name.removeprefix(prefix): value.reveal()
        for name, value in entry.options.items()
        if name.startswith(prefix)
    }
