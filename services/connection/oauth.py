"""Obtains OAUTHBEARER tokens from an identity provider, from a file, or unsigned from settings."""

from __future__ import annotations

import base64
import json
import math
import threading
import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any
from urllib.parse import quote_plus

from breakglass.services.connection.sasl import TokenEndpoint, TokenFile, UnsecuredToken
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.tls_context import client_context
from breakglass.services.errors import AuthenticationFailed, ConnectFailed, Unreachable
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular

RENEW_AT = 0.8
"""Share of a token's lifetime after which the next login asks for a new one."""
UNKNOWN_LIFETIME_SECONDS = 300.0
"""For tokens that do not say when they expire."""
MAX_ANSWER_BYTES = 1024 * 1024


@dataclass(frozen=True, slots=True)
class BearerToken:
    """A bearer token."""

    value: Secret
    obtained_at: float
    """Seconds since the epoch."""
    expires_at: float
    """Seconds since the epoch."""
    principal: str
    """The ``sub`` claim, empty if there is none."""

    def fresh_at(self, now: float) -> bool:
        """Whether the token may still be used for a new login at *now*, seconds since 1970."""
        return now < self.obtained_at + (self.expires_at - self.obtained_at) * RENEW_AT


class TokenSource:
    """Gives a token, and renews it before it expires. For use by many threads."""

    def __init__(self, source: TokenEndpoint | TokenFile | UnsecuredToken) -> None:
        self._source = source
        self._token: BearerToken | None = None
        self._lock = threading.Lock()

    def token(self) -> BearerToken:
        """A token that is valid for a login now.

        Raises:
            AuthenticationFailed: the identity provider refuses, or its answer is not a token.
            ConnectFailed: the identity provider cannot be reached.
        """
        with self._lock:
            now = time.time()
            if self._token is None or not self._token.fresh_at(now):
                self._token = obtain(self._source, now)
            return self._token


def obtain(source: TokenEndpoint | TokenFile | UnsecuredToken, now: float) -> BearerToken:
    """A new token, obtained at *now*, seconds since 1970.

    Raises:
        AuthenticationFailed: the source gives no token.
        ConnectFailed: the source cannot be reached.
    """
    if isinstance(source, TokenEndpoint):
        return _from_endpoint(source, now)
    if isinstance(source, TokenFile):
        return _from_file(source, now)
    return _from_claims(source, now)


def _from_endpoint(endpoint: TokenEndpoint, now: float) -> BearerToken:
    answer = _post(endpoint)
    if isinstance(answer, Unreachable):
        raise answer
    token, lifetime = _token_in(answer.reveal())
    if not token:
        raise AuthenticationFailed(
            f"{endpoint.url} answered without an access_token: check that it is a token endpoint"
        )
    return _described(token, now, lifetime)


def _from_file(source: TokenFile, now: float) -> BearerToken:
    try:
        token = Secret(read_regular(source.path, SETTINGS_BYTES).decode("utf-8").strip())
    except (OSError, UnicodeDecodeError) as error:
        reason = getattr(error, "strerror", None) or "not text"
    else:
        return _described(token, now, None)
    raise AuthenticationFailed(
        f"{source.path} cannot be read ({reason}): put the token of OAUTHBEARER there"
    )


def _post(endpoint: TokenEndpoint) -> Secret | Unreachable:
    """The body of the answer. A failure is returned: a traceback would contain the secret."""
    import urllib.error
    import urllib.request

    class KeepToTheUrl(urllib.request.HTTPRedirectHandler):
        """A redirect would carry the Authorization header to another host."""

        def redirect_request(self, *_: Any) -> None:
            return None

    opener = urllib.request.build_opener(
        KeepToTheUrl, urllib.request.HTTPSHandler(context=client_context(endpoint.tls))
    )
    body = "grant_type=client_credentials"
    if endpoint.scope:
        body += "&scope=" + quote_plus(endpoint.scope)
    request = urllib.request.Request(  # noqa: S310 (http or https: oauth_settings.read_oauth)
        endpoint.url, body.encode(), _headers(endpoint)
    )
    try:
        with opener.open(request, timeout=endpoint.timeout_ms / 1000) as response:
            return Secret(response.read(MAX_ANSWER_BYTES).decode("utf-8", "replace"))
    except urllib.error.HTTPError as error:
        error.close()
        return AuthenticationFailed(
            f"{endpoint.url} refused to give a token (HTTP {error.code}): check client id, client "
            "secret and scope of OAUTHBEARER"
        )
    except OSError as error:
        reason = getattr(error, "reason", None) or error
        return ConnectFailed(
            f"{endpoint.url} cannot be reached ({reason}): check the token endpoint"
        )


def _headers(endpoint: TokenEndpoint) -> dict[str, str]:
    client_id, secret = endpoint.client_id, endpoint.client_secret.reveal().strip()
    if endpoint.urlencode:
        client_id, secret = quote_plus(client_id), quote_plus(secret)
    credentials = base64.b64encode(f"{client_id}:{secret}".encode()).decode()
    return {
        "Accept": "application/json",
        "Authorization": f"Basic {credentials}",
        "Cache-Control": "no-cache",
        "Content-Type": "application/x-www-form-urlencoded",
    }


def _token_in(text: str) -> tuple[Secret, float | None]:
    """The token of an answer, empty if missing, and its lifetime in seconds if stated."""
    answer = _json_object(text)
    token = answer.get("access_token") or answer.get("id_token")
    lifetime = answer.get("expires_in")
    return (
        Secret(token.strip() if isinstance(token, str) else ""),
        float(lifetime) if isinstance(lifetime, int | float) and lifetime > 0 else None,
    )


def _described(token: Secret, now: float, lifetime: float | None) -> BearerToken:
    claims = _claims_of(token)
    expires = claims.get("exp")
    subject = claims.get("sub")
    return BearerToken(
        value=token,
        obtained_at=now,
        expires_at=float(expires)
        if isinstance(expires, int | float)
        else now + (lifetime or UNKNOWN_LIFETIME_SECONDS),
        principal=subject if isinstance(subject, str) else "",
    )


def _claims_of(token: Secret) -> Mapping[str, Any]:
    """The claims of a JWT, unverified: the broker does that; empty for an opaque token."""
    parts = token.reveal().split(".")
    if len(parts) != 3:
        return {}
    try:
        return _json_object(base64.urlsafe_b64decode(parts[1] + "=" * (-len(parts[1]) % 4)))
    except ValueError:
        return {}


def _json_object(text: str | bytes) -> dict[str, Any]:
    try:
        value = json.loads(text)
    except ValueError:
        return {}
    return value if isinstance(value, dict) else {}


def _from_claims(source: UnsecuredToken, now: float) -> BearerToken:
    """OAuthBearerUnsecuredLoginCallbackHandler.java: header alg none, no signature."""
    options = {name.removeprefix("unsecuredLogin"): held for name, held in source.claims.items()}
    try:
        claims = _claims(options, now)
    except ValueError:
        claims = {}
    if not claims:
        raise AuthenticationFailed(
            "an unsecuredLogin number in sasl.jaas.config is not a number: correct it"
        )
    header = _encoded({"alg": "none"})
    return _described(Secret(f"{header}.{_encoded(claims)}."), now, None)


def _claims(options: Mapping[str, Secret], now: float) -> dict[str, Any]:
    lifetime = options.get("LifetimeSeconds")
    # Round down to whole milliseconds: a broker on this machine refuses a token whose time is in
    # the future.
    issued = math.floor(now * 1000) / 1000
    expires = issued + int(lifetime.reveal() if lifetime else 3600)
    claims: dict[str, Any] = {"iat": issued, "exp": expires}
    for name, held in options.items():
        kind, _, claim = name.partition("Claim_")
        if not claim or claim in ("iat", "exp"):
            continue
        value = held.reveal()
        if kind == "String":
            claims[claim] = value
        elif kind == "Number":
            claims[claim] = float(value)
        elif kind == "List":
            claims[claim] = value[1:].split(value[0]) if len(value) > 1 else []
    return claims


def _encoded(value: Mapping[str, Any]) -> str:
    text = json.dumps(value, separators=(",", ":"))
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")
