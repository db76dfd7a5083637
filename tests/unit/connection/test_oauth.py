"""Bearer tokens: asked of an identity provider on loopback, read from a file, made unsigned."""

import base64
import itertools
import json
import sys
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from breakglass.services.connection import oauth
from breakglass.services.connection.oauth import TokenSource, obtain
from breakglass.services.connection.sasl import TokenEndpoint, TokenFile, UnsecuredToken
from breakglass.services.connection.secret import Secret
from breakglass.services.errors import AuthenticationFailed, NoIdentityProvider, Unreachable
from tests.kit.deadlines import HOUR
from tests.kit.raw_http import OK, answer_of, raw_http
from tests.kit.waiting import wait_until

NOW = 1_700_000_000.0


def jwt(**claims: object) -> str:
    """An unsigned token with those claims."""
    header, payload = (
        base64.urlsafe_b64encode(json.dumps(part).encode()).decode().rstrip("=")
        for part in ({"alg": "none"}, claims)
    )
    return f"{header}.{payload}."


def claims_of(token: Secret) -> dict[str, object]:
    payload = token.reveal().split(".")[1]
    claims = json.loads(base64.urlsafe_b64decode(payload + "=" * (-len(payload) % 4)))
    assert isinstance(claims, dict)
    return claims


@dataclass
class Provider:
    """An identity provider: what it answers, and what it was asked."""

    endpoint: TokenEndpoint
    answer: bytes = b"{}"
    status: int = 200
    location: str | None = None
    asked: list[tuple[str | None, bytes]] = field(default_factory=list)


@pytest.fixture
def provider() -> Iterator[Provider]:
    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            body = self.rfile.read(int(self.headers["Content-Length"]))
            known.asked.append((self.headers["Authorization"], body))
            self.send_response(known.status)
            if known.location:
                self.send_header("Location", known.location)
            self.end_headers()
            self.wfile.write(known.answer)

        def log_message(self, *_: object) -> None:
            """Stay silent."""

    with HTTPServer(("127.0.0.1", 0), Handler) as server:
        known = Provider(
            TokenEndpoint(
                url=f"http://127.0.0.1:{server.server_port}/token",
                client_id="me&you",
                client_secret=Secret("hush=hush"),
                scope=None,
                urlencode=False,
                timeout_ms=300_000,
            )
        )
        thread = threading.Thread(target=server.serve_forever, args=(0.01,))
        thread.start()
        try:
            yield known
        finally:
            server.shutdown()
            thread.join()


def test_the_endpoint_is_asked_with_credentials_encoded_if_asked_to(provider: Provider) -> None:
    provider.answer = json.dumps({"access_token": jwt(exp=NOW + 60, sub="ops")}).encode()
    token = obtain(provider.endpoint, NOW)
    assert (token.expires_at, token.principal) == (NOW + 60, "ops")
    provider.answer = b'{"access_token": "opaque", "expires_in": 120}'
    token = obtain(replace(provider.endpoint, scope="a b", urlencode=True), NOW)
    assert token.expires_at == NOW + 120
    plain, encoded = (
        base64.b64encode(b).decode() for b in (b"me&you:hush=hush", b"me%26you:hush%3Dhush")
    )
    assert provider.asked == [
        (f"Basic {plain}", b"grant_type=client_credentials"),
        (f"Basic {encoded}", b"grant_type=client_credentials&scope=a+b"),
    ]


@pytest.mark.parametrize(
    ("status", "answer"),
    [
        *((200, answer) for answer in (b"", b"<html>", b"[]", b"{}", b'{"access_token": 5}')),
        (401, b"{}"),
        (302, b"{}"),
    ],
)
def test_an_answer_without_a_token_is_refused_without_the_secret_and_not_followed(
    provider: Provider, status: int, answer: bytes
) -> None:
    provider.status, provider.answer, provider.location = status, answer, "/elsewhere"
    with pytest.raises(AuthenticationFailed) as refused:
        obtain(provider.endpoint, NOW)
    assert ("HTTP" in str(refused.value)) is (status != 200)
    assert "hush" not in str(refused.value)
    assert len(provider.asked) == 1


def test_a_file_is_read_anew_for_each_token(tmp_path: Path) -> None:
    file = tmp_path / "token"
    for expiry in (NOW + 10, NOW + 20):
        file.write_text(jwt(exp=expiry) + "\n")
        assert obtain(TokenFile(file), NOW).expires_at == expiry
    with pytest.raises(AuthenticationFailed):
        obtain(TokenFile(tmp_path / "missing"), NOW)


def test_an_unsecured_token_claims_what_the_options_say() -> None:
    options = {
        "unsecuredLoginStringClaim_sub": "ops",
        "unsecuredLoginNumberClaim_level": "3",
        "unsecuredLoginListClaim_scope": "|read|write",
        "unsecuredLoginLifetimeSeconds": "60",
        "unsecuredLoginStringClaim_exp": "9",
    }
    source = UnsecuredToken({name: Secret(value) for name, value in options.items()})
    token = obtain(source, NOW + 0.0009)
    told = {"sub": "ops", "level": 3.0, "scope": ["read", "write"]}
    claims = claims_of(token.value)
    assert claims.pop("iat") == NOW, "never in the future"
    assert claims.pop("exp") == pytest.approx(NOW + 60, abs=0.001)
    assert (claims, token.principal) == (told, "ops")
    with pytest.raises(AuthenticationFailed):
        obtain(UnsecuredToken({"unsecuredLoginLifetimeSeconds": Secret("soon")}), NOW)


def provider_at(address: str, timeout_ms: int = 300_000) -> TokenEndpoint:
    url = f"http://me:own-password@{address}/token?key=hush"
    return TokenEndpoint(url, "me", Secret("hush=hush"), None, False, timeout_ms)


HOSTILE: dict[str, list[bytes]] = {
    "nothing": [],
    "no HTTP": [b"\x1b]0;owned\x07\r\n\r\n"],
    "no status": [b"HTTP/1.1 \x1b[2J\r\n\r\n"],
    "a torn body": [OK + b"Content-Length: 99\r\n\r\n{"],
    "a line without end": [OK + b"X: " + b"a" * 100_000],
    "headers without end": [OK + b"X: a\r\n" * 200],
    "chunks of no size": [OK + b"Transfer-Encoding: chunked\r\n\r\nzz\r\n"],
    "a redirect to no address": [b"HTTP/1.1 302 Found\r\nLocation: http://[\r\n\r\n"],
    "the secret in its status": [b"hush=hush\x1b[31m\r\n\r\n"],
    "nested JSON": answer_of(b"[" * 200_000),
    "too much": answer_of(b" " * 2_000_000),
    "an escape for a token": answer_of(b'{"access_token": "a\\u001b[2J"}'),
    "a field in a token": answer_of(b'{"access_token": "a\\u0001auth=b"}'),
}


@pytest.mark.parametrize("pieces", HOSTILE.values(), ids=HOSTILE)
def test_s40_whatever_a_provider_answers_is_a_sentence_that_names_it_and_has_no_secret(
    pieces: list[bytes],
) -> None:
    with raw_http(pieces) as (address, asked), pytest.raises(Unreachable) as refused:
        obtain(provider_at(address), NOW)
    assert len(asked) == 1
    text = str(refused.value)
    assert text.isprintable()
    assert "the identity provider http://127.0.0.1:" in text
    assert "/token" in text
    assert not {secret for secret in ("hush", "own-password") if secret in text}


def test_s40_a_provider_that_never_ends_is_cut_off() -> None:
    flood = itertools.repeat(b"HTTP/1.1 100 Continue\r\n\r\n", 1_000_000)
    with raw_http(flood) as (address, _), pytest.raises(NoIdentityProvider) as refused:
        TokenSource(provider_at(address, 500)).token(HOUR)
    assert refused.value.reason == "its identity provider is silent"


def test_s40_logins_that_wait_for_a_silent_provider_share_its_failure(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Nine brokers do not wait for it one after the other."""

    def waiting() -> bool:
        frames = [f for f in sys._current_frames().values() if f.f_code.co_name == "token"]
        return sum("patience" in frame.f_locals for frame in frames) == 2

    asked: list[int] = []
    failures: list[NoIdentityProvider] = []

    def silent(*_: object) -> None:
        asked.append(1)
        wait_until(waiting, "all logins to wait for the token")
        raise NoIdentityProvider("silent")

    def log_in() -> None:
        try:
            source.token(HOUR)
        except NoIdentityProvider as error:
            failures.append(error)

    monkeypatch.setattr(oauth, "obtain", silent)
    source = TokenSource(UnsecuredToken({}))
    threads = [threading.Thread(target=log_in) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert (len(asked), len(failures)) == (1, 3)


@pytest.mark.parametrize(
    "lifetime", [b"1e400", b"NaN", b"true", b"-5", b"9" * 400, b'"soon"', b"null"]
)
def test_s40_a_lifetime_that_cannot_be_is_not_believed(provider: Provider, lifetime: bytes) -> None:
    claims = base64.urlsafe_b64encode(b'{"exp": %s}' % lifetime).decode().rstrip("=")
    for token, stated in (("opaque", lifetime), (f"e30.{claims}.", b"null")):
        provider.answer = b'{"access_token": "%s", "expires_in": %s}' % (token.encode(), stated)
        assert obtain(provider.endpoint, NOW).expires_at == NOW + 300
