"""Bearer tokens: asked of an identity provider on loopback, read from a file, made unsigned."""

from __future__ import annotations

import base64
import json
import threading
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path

import pytest

from breakglass.services.connection.oauth import TokenSource, obtain
from breakglass.services.connection.sasl import TokenEndpoint, TokenFile, UnsecuredToken
from breakglass.services.connection.secret import Secret
from breakglass.services.errors import AuthenticationFailed

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


def test_the_endpoint_is_asked_with_credentials_encoded_if_asked_to(
    provider: Provider,
) -> None:
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


@pytest.mark.parametrize(("age", "fresh"), [(0, True), (47, True), (49, False), (61, False)])
def test_a_token_is_renewed_well_before_it_expires(age: int, fresh: bool) -> None:
    token = obtain(UnsecuredToken({"unsecuredLoginLifetimeSeconds": Secret("60")}), NOW)
    assert token.fresh_at(NOW + age) is fresh


def test_a_source_gives_the_same_token_until_it_grows_old(provider: Provider) -> None:
    for expiry, asked in (("3600", 1), ("0.000001", 3)):
        provider.answer = b'{"access_token": "opaque", "expires_in": %s}' % expiry.encode()
        source = TokenSource(provider.endpoint)
        assert (source.token() is source.token()) is (asked == 1)
        assert len(provider.asked) == asked
