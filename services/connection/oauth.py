"""Obtains OAUTHBEARER tokens from an identity provider, from a file, or unsigned from settings."""

from __future__ import annotations

import base64
import json
import math
import re
import socket
import threading
import time
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass
from functools import partial
from typing import Any
from urllib.parse import quote_plus, urlsplit

from breakglass.services.clock import NOTICE_SECONDS, WAITS
from breakglass.services.connection.sasl import TokenEndpoint, TokenFile, UnsecuredToken
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.tls import client_context
from breakglass.services.errors import AuthenticationFailed, NoIdentityProvider, Unreachable
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular
from breakglass.services.words.inert import bounded, bounded_url

RENEW_AT = 0.8
"""Share of a token's lifetime after which the next login asks for a new one."""
UNKNOWN_LIFETIME_SECONDS = 300.0
"""For tokens that do not say when they expire."""
LONGEST_LIFETIME_SECONDS = 10 * 365 * 24 * 3600.0
"""A token that claims more than this does not say when it expires."""
MAX_ANSWER_BYTES = 1024 * 1024
SHOWN = 200
"""Characters of a foreign text in a message."""
SHARE_OF_WAIT = 0.9
"""Of what a caller can wait: a provider that is silent is named before its broker is."""
_TOKEN = re.compile(r"[A-Za-z0-9._~+/-]+=*", re.ASCII)
"""RFC 6750 section 2.1."""


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
        self._failure: tuple[float, Unreachable] | None = None
        """When the last request failed, by the monotonic clock, and how."""

    def token(self, seconds: float = math.inf) -> BearerToken:
        """A token that is valid for a login now, for a caller that can wait *seconds*.

        Callers that wait for the same request share its failure, so that a provider that hangs is
        not waited for by one after the other.

        Raises:
            AuthenticationFailed: the identity provider refuses, or its answer is not a token.
            NoIdentityProvider: the identity provider cannot be reached.
        """
        began = time.monotonic()
        patience = seconds * SHARE_OF_WAIT
        if not self._lock.acquire(timeout=min(patience, threading.TIMEOUT_MAX)):
            assert isinstance(self._source, TokenEndpoint)
            raise _silent(self._source)
        try:
            now = time.time()
            if self._token is not None and self._token.fresh_at(now):
                return self._token
            if self._failure is not None and self._failure[0] >= began:
                failed = self._failure[1]
                raise type(failed)(str(failed), failed.reason)
            WAITS.begin(
                self, lambda: f"{_named(self._source)} has given no token for {NOTICE_SECONDS:g} s"
            )
            try:
                self._token = obtain(self._source, now, patience - (time.monotonic() - began))
            except Unreachable as error:
                self._failure = (time.monotonic(), error.with_traceback(None))
                raise
            finally:
                WAITS.end(self)
            return self._token
        finally:
            self._lock.release()

    def masked_in(self, text: str) -> str:
        """A broker's *text* without the token that it was sent."""
        return text if self._token is None else self._token.value.masked_in(text)


def obtain(
    source: TokenEndpoint | TokenFile | UnsecuredToken, now: float, seconds: float = math.inf
) -> BearerToken:
    """A new token, obtained at *now*, seconds since 1970; a provider gets at most *seconds*.

    Raises:
        AuthenticationFailed: the source gives no token.
        NoIdentityProvider: the source cannot be reached.
    """
    if isinstance(source, TokenEndpoint):
        return _from_endpoint(source, now, seconds)
    if isinstance(source, TokenFile):
        try:
            token = Secret(read_regular(source.path, SETTINGS_BYTES).decode("utf-8").strip())
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "not text"
        else:
            return _described(token, now, None)
        raise AuthenticationFailed(
            f"{source.path} cannot be read ({reason}): put the token of OAUTHBEARER there"
        )
    # OAuthBearerUnsecuredLoginCallbackHandler.java: header alg none, no signature.
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


def _from_endpoint(endpoint: TokenEndpoint, now: float, seconds: float) -> BearerToken:
    answer = _post(endpoint, min(seconds, endpoint.timeout_ms / 1000))
    if isinstance(answer, Unreachable):
        raise answer
    token, lifetime = _token_in(answer.reveal())
    where = _named(endpoint)
    if not token:
        raise AuthenticationFailed(
            f"{where} answered without an access_token: check that it is a token endpoint"
        )
    if not _TOKEN.fullmatch(token.reveal()):
        raise AuthenticationFailed(
            f"{where} answered with an access_token that has characters no token has (RFC 6750): "
            "check that it is your identity provider"
        )
    return _described(token, now, lifetime)


def _named(source: TokenEndpoint | TokenFile | UnsecuredToken) -> str:
    if isinstance(source, TokenEndpoint):
        return f"the identity provider {bounded_url(source.url, SHOWN)}"
    return str(source.path) if isinstance(source, TokenFile) else "sasl.jaas.config"


def _silent(endpoint: TokenEndpoint) -> NoIdentityProvider:
    return NoIdentityProvider(
        f"{_named(endpoint)} did not give a token in time: check that it runs, and "
        "sasl.login.read.timeout.ms",
        "its identity provider is silent",
    )


def _post(endpoint: TokenEndpoint, seconds: float) -> Secret | Unreachable:
    """The body of the answer. A failure is returned: a traceback would contain the secret.

    Whatever the provider sends, and however slowly, the connection is cut after *seconds*.
    """
    import http.client
    import urllib.request

    if seconds <= 0:
        return _silent(endpoint)
    over = threading.Event()
    opened: list[socket.socket] = []

    def cut() -> None:
        over.set()
        for sock in opened:
            with suppress(OSError):
                sock.shutdown(socket.SHUT_RDWR)

    def connect(*given: Any) -> socket.socket:
        sock = socket.create_connection(*given)
        # TLS takes over a socket's descriptor: a duplicate still reaches the connection.
        opened.append(sock.dup())
        return sock

    def connection(kind: Any, host: str, **given: Any) -> Any:
        made = kind(host, **given)
        made._create_connection = connect
        return made

    class Http(urllib.request.HTTPHandler):
        def do_open(self, http_class: Any, req: Any, **given: Any) -> Any:
            return super().do_open(partial(connection, http_class), req, **given)

    class Https(urllib.request.HTTPSHandler):
        def do_open(self, http_class: Any, req: Any, **given: Any) -> Any:
            return super().do_open(partial(connection, http_class), req, **given)

    # Without the handler of redirects, which would carry the Authorization header to another host.
    opener = urllib.request.OpenerDirector()
    for handler in (
        *(urllib.request.ProxyHandler(), Http(), Https(context=client_context(endpoint.tls))),
        *(urllib.request.HTTPDefaultErrorHandler(), urllib.request.HTTPErrorProcessor()),
    ):
        opener.add_handler(handler)
    body = "grant_type=client_credentials"
    if endpoint.scope:
        body += "&scope=" + quote_plus(endpoint.scope)
    parts = urlsplit(endpoint.url)
    # As Java's client, which sends no user and password of a URL.
    url = parts._replace(netloc=parts.netloc.rpartition("@")[2], fragment="").geturl()
    request = urllib.request.Request(  # noqa: S310 (http or https: sasl.read_oauth)
        url, body.encode(), _headers(endpoint)
    )
    timer = threading.Timer(seconds, cut)
    timer.daemon = True
    timer.start()
    try:
        with opener.open(request, timeout=seconds) as response:
            answer = response.read(MAX_ANSWER_BYTES + 1)
    except urllib.request.HTTPError as error:
        error.close()
        return AuthenticationFailed(
            f"{_named(endpoint)} refused to give a token (HTTP {error.code}): check client id, "
            "client secret and scope of OAUTHBEARER"
        )
    except (OSError, http.client.HTTPException, ValueError) as error:
        reason = getattr(error, "reason", None) or error
        if over.is_set() or isinstance(reason, TimeoutError):
            return _silent(endpoint)
        why = endpoint.client_secret.masked_in(str(reason) or type(reason).__name__)
        return NoIdentityProvider(
            f"{_named(endpoint)} does not answer as one does ({bounded(why, SHOWN)}): check "
            "sasl.oauthbearer.token.endpoint.url",
            "no answer of its identity provider",
        )
    finally:
        timer.cancel()
        for sock in opened:
            sock.close()
    if over.is_set():
        return _silent(endpoint)
    if len(answer) > MAX_ANSWER_BYTES:
        return AuthenticationFailed(
            f"{_named(endpoint)} answered with more than {MAX_ANSWER_BYTES:,} bytes, which is no "
            "token: check sasl.oauthbearer.token.endpoint.url"
        )
    return Secret(answer.decode("utf-8", "replace"))


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
    return (
        Secret(token.strip() if isinstance(token, str) else ""),
        _seconds(answer.get("expires_in")),
    )


def _seconds(stated: object) -> float | None:
    """A number of seconds above 0, or None where something else is stated."""
    if isinstance(stated, bool) or not isinstance(stated, int | float):
        return None
    # Compared before it is converted: JSON has integers that no float holds, and NaN.
    return float(stated) if 0 < stated < 2**53 else None


def _described(token: Secret, now: float, lifetime: float | None) -> BearerToken:
    claims = _claims_of(token)
    expires, subject = _seconds(claims.get("exp")), claims.get("sub")
    if expires is None:
        expires = now + (lifetime or UNKNOWN_LIFETIME_SECONDS)
    if expires > now + LONGEST_LIFETIME_SECONDS:
        expires = now + UNKNOWN_LIFETIME_SECONDS
    principal = subject if isinstance(subject, str) else ""
    return BearerToken(value=token, obtained_at=now, expires_at=expires, principal=principal)


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
    except (ValueError, RecursionError):
        return {}
    return value if isinstance(value, dict) else {}


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
