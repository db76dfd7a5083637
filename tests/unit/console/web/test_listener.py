"""Where servers listen, and whose token they take."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from aiohttp import ClientConnectorCertificateError, ClientSession

from breakglass.console.checkpoint_serve import TOKEN
from breakglass.console.web.access import SHORTEST
from breakglass.console.web.bearer import token_of
from breakglass.console.web.listener import HttpListener, is_loopback, serve_until
from breakglass.console.web.metrics_server import metrics_application
from breakglass.services.checkpoint.zeebe_api import BACKUPS
from breakglass.services.errors import Refused, UsageError
from tests.kit.program import breakglass
from tests.unit.connection.certificates import Identity

SECRET = "a-token-of-the-tests"


@pytest.fixture
def authority() -> Identity:
    return Identity.authority()


@pytest.fixture
def server(tmp_path: Path, authority: Identity) -> tuple[Path, Path]:
    """A certificate for this machine, and its key."""
    identity = authority.signs("checkpoints", "127.0.0.1")
    certificate, key = tmp_path / "server.pem", tmp_path / "server.key"
    certificate.write_text(identity.chain_pem)
    key.write_text(identity.key_pem())
    return certificate, key


@pytest.mark.parametrize("host", ["127.0.0.1", "127.8.9.1", "::1", "localhost"])
def test_this_machine_needs_no_tls(host: str) -> None:
    assert is_loopback(host)
    assert HttpListener.at(host, 9600).url(9600, "/").startswith("http://")


@pytest.mark.parametrize(
    "host",
    ["0.0.0.0", "::", "192.0.2.7", "", "no-such-host.invalid"],  # noqa: S104 - refused
)
def test_off_loopback_a_server_without_tls_is_refused(host: str) -> None:
    with pytest.raises(Refused):
        HttpListener.at(host, 9600)


def test_with_a_certificate_or_behind_a_proxy_that_ends_tls_it_listens_anywhere(
    server: tuple[Path, Path],
) -> None:
    found = HttpListener.at("::", 9600, *server)
    assert found.tls is not None
    assert found.url(9600, BACKUPS) == "https://[::]:9600/actuator/backups"
    behind = HttpListener.at("192.0.2.7", 8417, behind_tls=True)
    assert (behind.host, behind.tls) == ("192.0.2.7", None)


@pytest.mark.parametrize("command", [("exporter",), ("serve",)])
def test_each_server_refuses_to_send_its_token_without_tls(command: tuple[str, ...]) -> None:
    ended = breakglass(*command, "--bootstrap-server", "127.0.0.1:1", "--host", "192.0.2.7")
    assert ended.code == 3
    assert "token: " not in ended.err


async def test_over_tls_metrics_are_served_to_who_brings_the_token(
    server: tuple[Path, Path], authority: Identity
) -> None:
    listener = HttpListener.at("127.0.0.1", 0, *server)
    stop, port = asyncio.Event(), asyncio.get_running_loop().create_future()
    application = metrics_application(lambda: b"up 1\n", SECRET)
    serving = asyncio.create_task(serve_until(application, listener, stop, port.set_result))
    trusting = authority.trusted()
    url = listener.url(await port, "/metrics")
    async with ClientSession(headers={"Authorization": f"Bearer {SECRET}"}) as client:
        async with client.get(url, ssl=trusting) as answer:
            assert (answer.status, await answer.read()) == (200, b"up 1\n")
        with pytest.raises(ClientConnectorCertificateError):
            await client.get(url)
    stop.set()
    await serving


def test_half_of_what_tls_needs_and_a_key_that_does_not_fit_are_refused(
    server: tuple[Path, Path], tmp_path: Path
) -> None:
    certificate, _ = server
    other, secret = tmp_path / "other.key", tmp_path / "secret.key"
    other.write_text(Identity.authority().key_pem())
    secret.write_text(Identity.authority().key_pem("secret"))
    for given in (
        *((certificate, None), (None, server[1]), (certificate, tmp_path / "none")),
        *((certificate, other), (certificate, secret)),
    ):
        with pytest.raises(UsageError):
            HttpListener.at("127.0.0.1", 9600, *given)


@pytest.fixture
def token_file(tmp_path: Path) -> Path:
    path = tmp_path / "token"
    path.write_text(f"{SECRET}\n")
    path.chmod(0o600)
    return path


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o602])
def test_a_token_file_that_others_may_use_is_refused(token_file: Path, mode: int) -> None:
    token_file.chmod(mode)
    with pytest.raises(Refused) as refusal:
        token_of(TOKEN, token_file)
    assert SECRET not in str(refusal.value)


@pytest.mark.parametrize(
    "content",
    [b"short\n", b"", b"two words make no token", b"no-token\x00\xff-at-all", b"x" * 5000],
)
def test_what_is_no_token_is_refused_and_not_shown(token_file: Path, content: bytes) -> None:
    token_file.write_bytes(content)
    with pytest.raises(UsageError) as refusal:
        token_of(TOKEN, token_file)
    assert "two words" not in str(refusal.value)


def test_one_token_is_taken_unprinted_two_are_refused_and_without_one_it_is_made_and_printed(
    token_file: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delenv(TOKEN, raising=False)
    made = token_of(TOKEN)
    assert len(made) >= SHORTEST
    assert capsys.readouterr().err == f"token: {made}\n"
    assert token_of(TOKEN, token_file) == SECRET
    assert capsys.readouterr() == ("", "")
    monkeypatch.setenv(TOKEN, SECRET)
    with pytest.raises(UsageError):
        token_of(TOKEN, token_file)
    monkeypatch.setenv(TOKEN, "short")
    with pytest.raises(UsageError, match=TOKEN):
        token_of(TOKEN)
