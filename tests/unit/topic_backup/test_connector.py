"""The properties of Kafka Backup's connectors: each key is honoured, refused, or named."""

from pathlib import Path

import pytest

from breakglass.services.connection.settings import Endpoint, SecurityProtocol
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import BadConnectionSettings
from breakglass.services.topic_backup.connector import (
    KEYS,
    ConnectorKind,
    ConnectorSettings,
    read_connector,
)
from tests.unit.topic_backup.golden import GOLDEN

EXAMPLES = GOLDEN.parent / "kafka_backup" / "properties"
SINK, SOURCE = (
    EXAMPLES / "connect-backup-sink.properties",
    EXAMPLES / "connect-backup-source.properties",
)
SECRET = "hunter2-of-the-connector"
JAAS = f'x.PlainLoginModule required username="u" password="{SECRET}";'


def read(folder: Path, text: str, kind: ConnectorKind = ConnectorKind.SINK) -> ConnectorSettings:
    file = folder / "backup.properties"
    file.write_text(text)
    return read_connector(file, kind, {"PLACE": "/from/env"})[0]


def keys(found: ConnectorSettings) -> list[str]:
    """The keys that are said to have no effect."""
    return [remark.split(": ")[1].split(" ")[0] for remark in found.remarks]


def test_the_originals_own_example_of_a_backup_is_read() -> None:
    found, client = read_connector(SINK, ConnectorKind.SINK)
    assert (found.store, found.pattern, found.topics) == (
        "/tmp/kafka-backup/001_simple_1partition_test/",
        "backup-test.*",
        (),
    )
    assert (found.max_segment_bytes, found.snapshot) == (10 * 1024**2, False)
    assert keys(found) == ["name", "tasks.max"]
    settings = connection_settings(ConnectionOptions(), {}, client_file=client)
    assert settings.bootstrap_servers == (Endpoint("localhost", 9092),)
    assert settings.notes == ()


def test_the_originals_own_example_of_a_restore_is_read() -> None:
    found, _ = read_connector(SOURCE, ConnectorKind.SOURCE)
    assert found.store == "/tmp/kafka-backup/001_simple_1partition_test/"
    assert found.topics == ("backup-test-1partition", "backup-test-empty")
    assert keys(found) == ["name", "tasks.max", "batch.size"]


def test_every_key_of_a_file_is_taken_or_named(tmp_path: Path) -> None:
    ignored = [key for key in KEYS if not (key.option or key.must_be or key.kind)]
    names = [key.name.replace("*", "any") for key in ignored]
    text = "".join(f"{name}=1\n" for name in [*names, "max.segment.size", "no.such.key"])
    found = read(tmp_path, text + "cluster.fetch.max.bytes=1\nbatch.size=1\n")
    expected = [*names, "max.segment.size", "no.such.key", "cluster.fetch.max.bytes", "batch.size"]
    assert keys(found) == expected
    assert any("Is max.segment.size.bytes meant?" in remark for remark in found.remarks)
    assert any("a key of BackupSourceConnector" in remark for remark in found.remarks)
    for name in ConnectorKind.SINK.spellings:
        assert keys(read(tmp_path, f"connector.class={name}\nsnapshot=true")) == []


@pytest.mark.parametrize(
    "text",
    [
        "connector.class=BackupSource",
        "connector.class=org.example.Other",
        "value.converter=org.example.Json",
        "transforms=mask",
        "topics=a\ntopics.regex=b",
        "topics.regex=*",
        "max.segment.size.bytes=1GiB",
        "snapshot=yes",
    ],
)
def test_what_would_do_another_thing_is_refused(tmp_path: Path, text: str) -> None:
    with pytest.raises(BadConnectionSettings):
        read(tmp_path, text)


def secure(folder: Path) -> Path:
    file = folder / "backup.properties"
    file.write_text(
        "cluster.bootstrap.servers=far:9092\ncluster.security.protocol=SASL_PLAINTEXT\n"
        f"cluster.sasl.mechanism=PLAIN\ncluster.sasl.jaas.config={JAAS}\n"
        f"consumer.override.sasl.jaas.config={JAAS}\nadmin.sasl.jaas.config={JAAS}\n"
        f"sasl.jaas.config={JAAS}\n"
    )
    file.chmod(0o644)
    return file


def test_the_clients_settings_connect_and_are_never_printed(tmp_path: Path) -> None:
    found, client = read_connector(secure(tmp_path), ConnectorKind.SINK)
    settings = connection_settings(ConnectionOptions(), {}, client_file=client)
    assert settings.security_protocol is SecurityProtocol.SASL_PLAINTEXT
    assert settings.sasl is not None
    assert "chmod 600" in settings.notes[0]
    assert len(found.remarks) == 3
    assert SECRET not in repr((found, client, settings, found.remarks))
