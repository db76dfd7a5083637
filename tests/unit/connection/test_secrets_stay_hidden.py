"""A sentinel secret goes through everything that handles secrets, and is looked for everywhere."""

from __future__ import annotations

import dataclasses
import json
import logging
import pickle
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import pytest

from breakglass.services.connection.oauth import obtain
from breakglass.services.connection.sasl import OAuthLogin
from breakglass.services.connection.security import ClientSecurity, confluent_config
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import BadConnectionSettings, BreakglassError
from breakglass.services.guard.journal import Journal
from breakglass.services.model import TopicPartition
from tests.unit.connection.certificates import Identity

SENTINEL = "s3ntinel-of-the-secrets"
CREDENTIALS = "sasl.oauthbearer.client.credentials.client"

PLAIN = f"""
security.protocol=SASL_SSL
sasl.mechanism=PLAIN
sasl.jaas.config=x.PlainLoginModule required username="ops" password="{SENTINEL}";
"""
SCRAM = PLAIN.replace("PLAIN", "SCRAM-SHA-512").replace("PlainLogin", "ScramLogin")
OAUTH = f"""
security.protocol=SASL_SSL
sasl.mechanism=OAUTHBEARER
sasl.jaas.config=x.OAuthBearerLoginModule required;
sasl.oauthbearer.token.endpoint.url=http://127.0.0.1:1/token
{CREDENTIALS}.id=ops
{CREDENTIALS}.secret={SENTINEL}
"""


@pytest.fixture
def key_store(tmp_path: Path, client: Identity) -> str:
    """Return properties of a key store whose password and key are secrets."""
    (tmp_path / "key.p12").write_bytes(client.key_store(SENTINEL))
    return (
        f"security.protocol=SSL\nssl.keystore.location={tmp_path}/key.p12\n"
        f"ssl.keystore.password={SENTINEL}\n"
    )


@pytest.fixture(params=["plain", "scram", "oauth", "mtls"])
def connection(
    request: pytest.FixtureRequest, tmp_path: Path, key_store: str
) -> ConnectionSettings:
    """Return settings that hold the sentinel, or a key, as a secret."""
    text = {"plain": PLAIN, "scram": SCRAM, "oauth": OAUTH, "mtls": key_store}[request.param]
    return settle(tmp_path, text)


@pytest.fixture
def secrets(client: Identity) -> tuple[str, ...]:
    """Return what must be seen nowhere: the sentinel, and a line of the private key."""
    return SENTINEL, client.key_pem().splitlines()[1]


def settle(folder: Path, text: str) -> ConnectionSettings:
    """Return the settings of a client properties file."""
    file = folder / "client.properties"
    file.write_text(text)
    flags = ConnectionOptions(bootstrap_server="b1:9092", command_config=str(file))
    return connection_settings(flags, {}, folder)


def holders(connection: ConnectionSettings) -> Iterator[object]:
    """Yield everything that the settings pass through on their way to a socket."""
    yield connection
    yield connection.tls
    yield connection.sasl
    security = ClientSecurity(connection)
    yield security
    yield security.sasl("b1")
    yield confluent_config(connection)


@pytest.mark.parametrize(
    "show", [repr, str, "{}".format, "%s".__mod__], ids=("repr", "str", "format", "percent")
)
def test_nothing_that_holds_a_secret_shows_it(
    connection: ConnectionSettings, secrets: tuple[str, ...], show: Callable[[object], str]
) -> None:
    for holder in holders(connection):
        text = show((holder,)) if show == "%s".__mod__ else show(holder)
        assert not [secret for secret in secrets if secret in text]


def test_settings_are_never_json_nor_pickled(connection: ConnectionSettings) -> None:
    with pytest.raises(TypeError):
        json.dumps(dataclasses.asdict(connection))
    with pytest.raises(TypeError, match="not written anywhere"):
        pickle.dumps(connection)


def test_settings_never_get_into_a_journal(connection: ConnectionSettings, tmp_path: Path) -> None:
    with Journal.open("cluster", tmp_path / "state") as journal:
        with pytest.raises(TypeError, match="has no place in a journal"):
            journal.note("settings", settings=dataclasses.asdict(connection))
        with pytest.raises(TypeError):
            journal.request("elect", {TopicPartition("t", 0): {"login": connection}})
        journal.note("the next entry is whole")
    assert SENTINEL.encode() not in journal.path.read_bytes()


BROKEN = {
    "escape": f"ssl.key.password={SENTINEL}\\u00\n",
    "jaas": PLAIN.replace('";', '"'),
    "jaas without quotes": PLAIN.replace('"', "").replace(";", "#;"),
    "jaas module": PLAIN.replace("PlainLoginModule", "Other"),
    "jaas user": PLAIN.replace("username", "user"),
    "delegation token": SCRAM.replace("username", "tokenauth=true username"),
    "mechanism": PLAIN.replace("PLAIN\n", "PLANE\n"),
    "protocol": PLAIN.replace("SASL_SSL", "TLS"),
    "trust store": PLAIN + f"ssl.truststore.password={SENTINEL}\n",
    "missing store": PLAIN + f"ssl.keystore.password={SENTINEL}\nssl.keystore.location=/none\n",
    "inline key": PLAIN + f"ssl.keystore.key={SENTINEL}\n",
    "inline PEM": PLAIN + f"ssl.keystore.type=PEM\nssl.keystore.key={SENTINEL}\n"
    f"ssl.keystore.certificate.chain={SENTINEL}\n",
    "variable": PLAIN.replace("ops", "${env:NONE}")
    + "config.providers=env\nconfig.providers.env.class="
    "org.apache.kafka.common.config.provider.EnvVarConfigProvider\n",
    "token endpoint": OAUTH.replace("http:", "gopher:"),
    "client id": OAUTH.replace(f"{CREDENTIALS}.id=ops", ""),
    "timeout": OAUTH + "sasl.login.read.timeout.ms=soon\n",
}


def told(error: BaseException) -> str:
    """Return everything that a traceback could show of an error, local variables too."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    chained = [
        exception for exception in (error.__context__, error.__cause__) if exception is not None
    ]
    return "".join([*shown.format(), repr(vars(error)), *map(told, chained)])


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_no_error_about_settings_tells_a_secret_not_even_its_traceback(
    tmp_path: Path, text: str
) -> None:
    with pytest.raises(BadConnectionSettings) as refused:
        settle(tmp_path, text)
    # The frames of the test itself hold the text it broke.
    error = refused.value.with_traceback(_without_first(refused.value, 2))
    assert SENTINEL not in told(error)


def test_no_error_about_key_material_tells_the_key(
    tmp_path: Path, client: Identity, secrets: tuple[str, ...]
) -> None:
    other = Identity.authority()
    (tmp_path / "key.pem").write_text(client.key_pem() + other.pem)
    connection = settle(
        tmp_path,
        f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/key.pem\n",
    )
    with pytest.raises(BadConnectionSettings, match="does not fit") as refused:
        ClientSecurity(connection)
    error = refused.value.with_traceback(_without_first(refused.value, 1))
    assert not [secret for secret in secrets if secret in told(error)]


def test_no_error_of_a_token_endpoint_tells_the_client_secret(tmp_path: Path) -> None:
    sasl = settle(tmp_path, OAUTH).sasl
    assert sasl is not None
    assert isinstance(sasl.login, OAuthLogin)
    with pytest.raises(BreakglassError) as failed:
        obtain(sasl.login.source, 0.0)
    assert SENTINEL not in told(failed.value)


def test_nothing_is_logged_of_a_secret(
    connection: ConnectionSettings, caplog: pytest.LogCaptureFixture, secrets: tuple[str, ...]
) -> None:
    with caplog.at_level(logging.DEBUG):
        for holder in holders(connection):
            logging.getLogger("test").debug("%s %r", holder, holder)
    assert not [secret for secret in secrets if secret in caplog.text]


def test_a_configuration_of_confluent_kafka_shows_its_keys_alone(tmp_path: Path) -> None:
    config = confluent_config(settle(tmp_path, PLAIN))
    assert config["sasl.password"] == SENTINEL
    assert "sasl.password" in repr(config)


def _without_first(error: BaseException, frames: int) -> TracebackType | None:
    kept = error.__traceback__
    for _ in range(frames):
        assert kept is not None
        kept = kept.tb_next
    return kept
