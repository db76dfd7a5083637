"""A real SASL_SSL listener that wants a client certificate too: every login, every store."""

import hashlib
import logging
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from confluent_kafka import Consumer, KafkaException
from kafka.protocol.admin import AlterUserScramCredentialsRequest, AlterUserScramCredentialsResponse

from breakglass.services.bundle.capture import Capture, CaptureAsked
from breakglass.services.bundle.contents import open_bundle
from breakglass.services.connection.security import ClientSecurity, confluent_config
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import AuthenticationFailed, Unreachable
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.deadline import Deadline
from breakglass.services.kafka.wire.sender import Sender
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import Unknown
from breakglass.services.session import ReadAccess
from tests.kit.bundles import unpacked
from tests.unit.connection.certificates import Identity
from tests.unit.connection.stores import Stores, pem_files, pkcs12, pkcs12_legacy

pytestmark = pytest.mark.main

SECONDS = 120.0
PACKAGE = "org.apache.kafka.common.security"
LISTENER = "listener.name.client."
PASSWORD = 'hunter2 "quoted" \\ é'
SALT, ROUNDS = b"salt", 4096
LOGGER = logging.getLogger("test.confluent")


def quoted(text: str) -> str:
    """Return *text* as a JAAS value, in ASCII whatever the file's encoding is."""
    escaped = (one if one.isascii() else f"\\{ord(one):03o}" for one in text)
    return '"' + "".join("\\" + text if text in '"\\' else text for text in escaped) + '"'


LOGINS = {
    "PLAIN": f"{PACKAGE}.plain.PlainLoginModule required username=admin password={{password}};",
    "SCRAM-SHA-256": f"{PACKAGE}.scram.ScramLoginModule required "
    'username="admin" password={password};',
    "SCRAM-SHA-512": f"{PACKAGE}.scram.ScramLoginModule required "
    'username="admin" password={password};',
    "OAUTHBEARER": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required "
    'unsecuredLoginStringClaim_sub="admin" unsecuredLoginExtension_team="sre";',
}


@dataclass(frozen=True)
class Secured:
    """A cluster behind TLS and SASL, and what is needed to get in."""

    cluster: Cluster
    root: Identity
    operator: Identity

    def settings(
        self, folder: Path, mechanism: str, stores: str, *, password: str = PASSWORD
    ) -> ConnectionSettings:
        """The settings of a client properties file with that login and those stores."""
        login = LOGINS[mechanism].format(password=quoted(password)).replace("\\", "\\\\")
        file = folder / "client.properties"
        file.write_text(
            f"security.protocol=SASL_SSL\nsasl.mechanism={mechanism}\n"
            f"sasl.jaas.config={login}\n{stores}",
            encoding="latin-1",
        )
        flags = ConnectionOptions(self.cluster.bootstrap_servers, command_config=str(file))
        return connection_settings(flags, {}, folder)


def broker_settings(folder: Path, broker: Identity, root: Identity) -> dict[str, str]:
    """The settings of a broker that shows *broker* and trusts what *root* vouches for."""
    keys, trusted = folder / "broker.pem", folder / "root.pem"
    keys.write_text(broker.key_pem() + broker.chain_pem)
    trusted.write_text(root.pem)
    plain = f"{PACKAGE}.plain.PlainLoginModule required user_admin={quoted(PASSWORD)};"
    listener = {
        "ssl.keystore.type": "PEM",
        "ssl.keystore.location": str(keys),
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(trusted),
        "ssl.client.auth": "required",
        "sasl.enabled.mechanisms": ",".join(LOGINS),
        "plain.sasl.jaas.config": plain,
        "scram-sha-256.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required;",
        "scram-sha-512.sasl.jaas.config": f"{PACKAGE}.scram.ScramLoginModule required;",
        "oauthbearer.sasl.jaas.config": f"{PACKAGE}.oauthbearer.OAuthBearerLoginModule required;",
    }
    return {LISTENER + key: value for key, value in listener.items()}


def add_scram_user(cluster: Cluster) -> None:
    """Give admin SCRAM credentials, by the lab's own listener."""
    # ScramMechanism.java: SCRAM-SHA-256 is 1, SCRAM-SHA-512 is 2.
    for mechanism, algorithm in ((1, "sha256"), (2, "sha512")):
        salted = hashlib.pbkdf2_hmac(algorithm, PASSWORD.encode(), SALT, ROUNDS)
        change = AlterUserScramCredentialsRequest.ScramCredentialUpsertion(
            name="admin", mechanism=mechanism, iterations=ROUNDS, salt=SALT, salted_password=salted
        )
        request = AlterUserScramCredentialsRequest(deletions=[], upsertions=[change])
        answer = cluster.command(request, AlterUserScramCredentialsResponse)
        assert [result.error_code for result in answer.results] == [0]


@contextmanager
def one_secured(folders: pytest.TempPathFactory) -> Iterator[Secured]:
    """One broker whose clients need a certificate and a login."""
    root = Identity.authority()
    broker = root.signs("b1", "127.0.0.1")
    operator = root.signs("Lab intermediate", authority=True).signs("operator")
    with Cluster.up(
        folders.mktemp("secured"),
        brokers=1,
        secured=True,
        tethered=True,
        overrides=broker_settings(folders.mktemp("keys"), broker, root),
    ) as cluster:
        add_scram_user(cluster)
        yield Secured(cluster, root, operator)


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Secured]:
    with one_secured(tmp_path_factory) as made:
        yield made


def cluster_id(settings: ConnectionSettings) -> str:
    """What our own client reads, with the settings."""
    with closing(_client(settings, ClientSecurity(settings))) as client:
        return client.describe(Deadline.after(SECONDS)).cluster_id


def _client(settings: ConnectionSettings, security: ClientSecurity) -> ReadClient:
    return ReadClient(Sender(settings.bootstrap_servers, security, api_keys.READ))


def consumer(settings: ConnectionSettings) -> Consumer:
    """Return confluent-kafka's client with the settings."""
    return Consumer({**confluent_config(settings), "group.id": "g"}, logger=LOGGER)


@pytest.mark.parametrize("stores", [pkcs12, pkcs12_legacy, pem_files], ids=lambda one: one.__name__)
@pytest.mark.parametrize("mechanism", LOGINS)
def test_both_clients_get_in_with_the_same_settings(
    secured: Secured, tmp_path: Path, mechanism: str, stores: Stores
) -> None:
    settings = secured.settings(
        tmp_path, mechanism, stores(tmp_path, secured.root, secured.operator)
    )
    ours = cluster_id(settings)
    theirs = consumer(settings)
    try:
        if mechanism == "OAUTHBEARER":
            theirs.poll(0)
        assert theirs.list_topics(timeout=SECONDS).cluster_id == ours
    finally:
        theirs.close()


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
def test_a_wrong_password_is_told_as_such_and_not_repeated(
    secured: Secured, tmp_path: Path, mechanism: str
) -> None:
    stores = pkcs12(tmp_path, secured.root, secured.operator)
    settings = secured.settings(tmp_path, mechanism, stores, password="wrong-sentinel")
    with pytest.raises(AuthenticationFailed, match=r"check sasl\.jaas\.config") as refused:
        cluster_id(settings)
    assert "wrong-sentinel" not in str(refused.value)


def test_a_mechanism_the_broker_does_not_offer_is_told_with_those_it_does(
    secured: Secured, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = secured.settings(tmp_path, "PLAIN", pkcs12(tmp_path, secured.root, secured.operator))
    assert settings.sasl is not None
    security = ClientSecurity(settings)
    begun = security.sasl("b1")
    assert begun is not None
    monkeypatch.setattr(security, "sasl", lambda *_: ("SCRAM-SHA-1", begun[1]))
    with (
        closing(_client(settings, security)) as client,
        pytest.raises(AuthenticationFailed, match=r"does not accept .*it offers .*PLAIN"),
    ):
        client.describe(Deadline.after(SECONDS))


def test_without_a_certificate_the_broker_does_not_let_us_in(
    secured: Secured, tmp_path: Path
) -> None:
    stores = pkcs12(tmp_path, secured.root, secured.operator)
    trust_only = "\n".join(line for line in stores.splitlines() if "truststore" in line)
    with pytest.raises(Unreachable):
        cluster_id(secured.settings(tmp_path, "PLAIN", trust_only))


def test_plaintext_on_a_tls_port_is_an_error_and_no_hang(secured: Secured, tmp_path: Path) -> None:
    flags = ConnectionOptions(secured.cluster.bootstrap_servers)
    with pytest.raises(Unreachable):
        cluster_id(connection_settings(flags, {}, tmp_path))
    theirs = consumer(connection_settings(flags, {}, tmp_path))
    with pytest.raises(KafkaException):
        theirs.list_topics(timeout=1)
    theirs.close()


def test_no_secret_of_the_client_or_of_the_broker_gets_into_a_bundle(
    secured: Secured, tmp_path: Path
) -> None:
    stores = pem_files(tmp_path, secured.root, secured.operator)
    access = ReadAccess(secured.settings(tmp_path, "SCRAM-SHA-512", stores))
    path = tmp_path / "b.tar.gz"
    with closing(Capture(access, CaptureAsked(state_folder=tmp_path))) as capture:
        capture.bundle(capture.settle(print)).write(path)
    settings = open_bundle(path).brokers[1].settings
    assert not isinstance(settings, Unknown)
    told = {setting.name: setting for setting in settings}
    login = told[f"{LISTENER}plain.sasl.jaas.config"]
    assert (login.value, login.sensitive) == (None, True)
    data = unpacked(path)
    keys = [line for line in secured.operator.key_pem().splitlines() if "-" not in line]
    assert [secret for secret in ("hunter2", *keys) if secret.encode() in data] == []
