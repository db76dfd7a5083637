"""What holds for all of it: secrets stay hidden, special files are refused, little is imported."""

import os
import subprocess
import sys
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from types import TracebackType

import pytest

from breakglass.console.look import FILE, read_settings
from breakglass.services.connection.oauth import obtain
from breakglass.services.connection.profiles import FOLDER, load_profile
from breakglass.services.connection.properties import Properties, Property, read_properties
from breakglass.services.connection.sasl import OAuthLogin, TokenFile
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.security import ClientSecurity, confluent_config
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.connection.sources import (
    BUILT_IN_PROVIDERS,
    ConnectionOptions,
    connection_settings,
    expand,
)
from breakglass.services.connection.tls import StoreProblem, trusted_from_file
from breakglass.services.errors import AuthenticationFailed, BadConnectionSettings, BreakglassError
from breakglass.services.regular_file import SETTINGS_BYTES
from tests.unit.connection.certificates import Identity

ROOT = Path(__file__).parents[3]
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


@pytest.fixture(params=["plain", "scram", "oauth", "mtls"])
def connection(
    request: pytest.FixtureRequest, tmp_path: Path, client: Identity
) -> ConnectionSettings:
    """Settings that hold the sentinel, or a key, as a secret."""
    (tmp_path / "key.p12").write_bytes(client.key_store(SENTINEL))
    store = f"{tmp_path}/key.p12\nssl.keystore.password={SENTINEL}\n"
    key_store = f"security.protocol=SSL\nssl.keystore.location={store}"
    text = {"plain": PLAIN, "scram": SCRAM, "oauth": OAUTH, "mtls": key_store}[request.param]
    return settle(tmp_path, text)


@pytest.fixture
def secrets(client: Identity) -> tuple[str, ...]:
    """What must be seen nowhere: the sentinel, and a line of the private key."""
    return SENTINEL, client.key_pem().splitlines()[1]


def settle(folder: Path, text: str) -> ConnectionSettings:
    """The settings of a client properties file."""
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


def test_nothing_shows_its_secret(connection: ConnectionSettings, secrets: tuple[str, ...]) -> None:
    for holder in holders(connection):
        for text in (repr(holder), str(holder), f"{holder}"):
            assert not [secret for secret in secrets if secret in text]


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
    """Everything that a traceback could show of an error, local variables too."""
    shown = traceback.TracebackException.from_exception(error, capture_locals=True)
    chained = [
        exception for exception in (error.__context__, error.__cause__) if exception is not None
    ]
    return "".join([*shown.format(), repr(vars(error)), *map(told, chained)])


@pytest.mark.parametrize("text", BROKEN.values(), ids=BROKEN.keys())
def test_no_error_of_settings_nor_its_traceback_tells_a_secret(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConnectionSettings) as refused:
        settle(tmp_path, text)
    # The frames of the test itself hold the text it broke.
    error = refused.value.with_traceback(_without_first(refused.value, 2))
    assert SENTINEL not in told(error)


def test_no_error_of_a_key_tells_it(
    tmp_path: Path, client: Identity, secrets: tuple[str, ...]
) -> None:
    other = Identity.authority()
    (tmp_path / "key.pem").write_text(client.key_pem() + other.pem)
    connection = settle(
        tmp_path,
        f"security.protocol=SSL\nssl.keystore.type=PEM\nssl.keystore.location={tmp_path}/key.pem\n",
    )
    with pytest.raises(BadConnectionSettings) as refused:
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


def _without_first(error: BaseException, frames: int) -> TracebackType | None:
    kept = error.__traceback__
    for _ in range(frames):
        assert kept is not None
        kept = kept.tb_next
    return kept


def fifo(path: Path) -> None:
    os.mkfifo(path)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def huge(path: Path) -> None:
    """A sparse file, so that it takes no room."""
    with path.open("wb") as file:
        file.truncate(SETTINGS_BYTES + 1)


@pytest.mark.parametrize("make", [fifo, device, huge])
class TestSpecialFiles:
    """A FIFO has no writer, a device has no end."""

    def test_properties_and_a_profile_that_are_no_file_are_refused(
        self, tmp_path: Path, make: Callable[[Path], None]
    ) -> None:
        make(tmp_path / "client.properties")
        with pytest.raises(BadConnectionSettings, match=r"client\.properties"):
            read_properties(tmp_path / "client.properties")
        (tmp_path / FOLDER).mkdir()
        make(tmp_path / FOLDER / "prod.toml")
        with pytest.raises(BadConnectionSettings, match=r"prod\.toml"):
            load_profile("prod", tmp_path)

    @pytest.mark.parametrize("variable", ["${{file:{0}/s:key}}", "${{directory:{0}:s}}"])
    def test_a_secret_in_a_file_that_is_none_has_no_value(
        self, tmp_path: Path, make: Callable[[Path], None], variable: str
    ) -> None:
        make(tmp_path / "s")
        held = {"k": Property(Secret(variable.format(tmp_path)), "f line 1")}
        with pytest.raises(BadConnectionSettings):
            expand(Properties(held, "f"), {}, BUILT_IN_PROVIDERS)

    def test_a_token_a_trust_store_and_settings_that_are_no_file_are_refused(
        self, tmp_path: Path, make: Callable[[Path], None]
    ) -> None:
        make(tmp_path / FILE)
        with pytest.raises(AuthenticationFailed):
            obtain(TokenFile(tmp_path / FILE), 0.0)
        assert isinstance(trusted_from_file(tmp_path / FILE, None), StoreProblem)
        assert len(read_settings(tmp_path).problems) == 1


@pytest.mark.parametrize("folder", ["/dev/fd", "/proc/self/fd"])
def test_properties_that_the_shell_pipes_in_are_read(folder: str) -> None:
    reading, writing = os.pipe()
    os.write(writing, b"sasl.username=ops\n")
    os.close(writing)
    try:
        assert read_properties(Path(folder, str(reading))).text("sasl.username") == "ops"
    finally:
        os.close(reading)


READING = """
import breakglass.services.connection.sources as s
from breakglass.services.session import ReadAccess
import sys
settings = s.connection_settings(s.ConnectionOptions(bootstrap_server="b:1"), {})
print(*sys.modules)
ReadAccess(settings).client().close()
print(*sys.modules)
"""


def test_settings_are_read_without_a_client_and_plaintext_without_tls_and_logins() -> None:
    command = [sys.executable, "-c", READING]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
    settings, client = (set(line.split()) for line in done.stdout.splitlines())
    heavy = {"pydantic", "kafka.net", "confluent_kafka", "cryptography", "javaproperties", "ssl"}
    assert not heavy & settings
    needless = ("tls", "oauth", "security")
    assert not {f"breakglass.services.connection.{name}" for name in needless} & client


def test_librdkafkas_clients_are_configured_for_doctor_alone() -> None:
    """Elsewhere, what a broker answers could end the process."""
    folders = ("console", "screens", "services")
    paths = [path for folder in folders for path in (ROOT / folder).rglob("*.py")]
    users = {path for path in paths if "confluent_config(" in path.read_text("utf-8")}
    services = ROOT / "services"
    assert users == {services / "connection" / "security.py", services / "doctor" / "cluster.py"}
