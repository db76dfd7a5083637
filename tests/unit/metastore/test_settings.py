"""What a server's properties say of backups: both spellings of the switch, and the shipped one."""

from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import CliRunner

from breakglass.console.metastore import app
from breakglass.services.connection.settings import ConnectionSettings, Endpoint, SecurityProtocol
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.errors import BadConnectionSettings
from breakglass.services.metastore.settings import (
    BackupName,
    KsqlServerConfig,
    MetastoreSettings,
    Style,
    command_topic,
    local_folder,
    new_name,
    newest,
    parse_name,
    read_server_config,
    service_of,
)

LOCATION = "ksql.metastore.backup.location"
ONE, OTHER = "ksql.enable.metastore.backup", "ksql.metastore.enable.backup"


Read = Callable[..., MetastoreSettings]


@pytest.fixture
def read(tmp_path: Path) -> Read:
    """Reads a file of these lines."""

    def reading(*lines: str) -> MetastoreSettings:
        file = tmp_path / "ksql-server.properties"
        file.write_text("\n".join(lines))
        return read_server_config(file, {}).settings

    return reading


def test_a_location_alone_is_on_as_ksqldb_was_shipped_and_what_is_ambiguous_refused(
    read: Read,
) -> None:
    settings = read(f"{LOCATION}=/var/backups")
    assert (settings.enabled, settings.style) == (True, Style.SHIPPED)
    off = read("ksql.service.id=prod_", "ksql.internal.topic.replicas=3")
    assert (off.enabled, off.replicas) == (False, 3)
    for lines in ((f"{ONE}=true", f"{OTHER}=false"), (f"{ONE}=yes",)):
        with pytest.raises(BadConnectionSettings):
            read(*lines)


@pytest.mark.parametrize("url", ["s3://bucket/a", "file:///var/a", "file:/var/a", "HDFS://a/b"])
def test_urls_are_refused(read: Read, url: str) -> None:
    with pytest.raises(BadConnectionSettings):
        read(f"{ONE}=true", f"{LOCATION}={url}")
    with pytest.raises(BadConnectionSettings):
        local_folder(url)


TOPIC = command_topic("default_")


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        (f"{TOPIC}_1593540976.bak", BackupName(1593540976000, Style.KLIP, TOPIC)),
        (f"backup_{TOPIC}_1593540976123", BackupName(1593540976123, Style.SHIPPED, TOPIC)),
        (f"{TOPIC}_0.bak", None),
        (f"{TOPIC}_-5.bak", None),
        (f"{TOPIC}_1593540976.bak.side", None),
        (f"backup_{TOPIC}_1593540976123.dirty", None),
        (f"backup_{TOPIC}_", None),
        (f"{TOPIC}_١٢.bak", None),
        (f"backup_{command_topic('other')}_1", None),
    ],
)
def test_a_name_is_read_in_either_style(name: str, expected: BackupName | None) -> None:
    assert parse_name(name, TOPIC) == expected
    if expected is not None:
        assert str(expected) == name


def test_services_whose_names_begin_alike_are_kept_apart() -> None:
    a, ab = command_topic("a"), command_topic("a_command_topic_1")
    assert newest([f"{ab}_5.bak", f"backup_{ab}_5"], a) is None
    assert TOPIC == "_confluent-ksql-default__command_topic"
    assert [service_of(topic) for topic in (TOPIC, "orders")] == ["default_", None]


@pytest.mark.parametrize("style", list(Style))
def test_a_new_name_never_collides_and_becomes_the_newest(style: Style) -> None:
    names: list[str] = [f"{TOPIC}_200.bak", f"backup_{TOPIC}_150500"]
    for _ in range(5):
        name = new_name(names, TOPIC, style, 100_000)
        assert str(name) not in names
        names.append(str(name))
        assert newest(names, TOPIC) == name


SECRET = "hunter2-of-the-server"
JAAS = f'x.PlainLoginModule required username="u" password="{SECRET}";'


def read_server(folder: Path, *lines: str) -> KsqlServerConfig:
    file = folder / "ksql-server.properties"
    file.write_text("\n".join(lines))
    file.chmod(0o600)
    return read_server_config(file, {"PLACE": "/from/env"})


def connected(found: KsqlServerConfig, server: str | None = None) -> ConnectionSettings:
    options = ConnectionOptions(bootstrap_server=server)
    return connection_settings(options, {}, client_file=found.client_file)


def test_a_servers_file_says_where_what_and_how(tmp_path: Path) -> None:
    found = read_server(
        tmp_path,
        "bootstrap.servers=far:9092",
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f"sasl.jaas.config={JAAS}",
        "ksql.service.id=prod_",
        "ksql.metastore.backup.location=/var/backups",
        "ksql.schema.registry.url=http://registry:8081",
        f"ksql.server.command.producer.sasl.jaas.config={JAAS}",
        "listeners=http://0.0.0.0:8088",
    )
    assert found.settings.topic == "_confluent-ksql-prod__command_topic"
    assert found.settings.location == Path("/var/backups")
    settings = connected(found)
    assert settings.bootstrap_servers == (Endpoint("far", 9092),)
    assert settings.security_protocol is SecurityProtocol.SASL_PLAINTEXT
    assert settings.sasl is not None
    assert [note.partition(" ")[0] for note in settings.notes] == ["PLAIN"]
    assert found.remarks == (
        "ksql-server.properties: keys without effect here: ksql.schema.registry.url, "
        "ksql.server.command.producer.sasl.jaas.config, listeners.",
    )
    assert SECRET not in repr((found, settings, found.remarks))


@pytest.mark.parametrize("option", ["--config-file", "--server-config", "--config"])
def test_the_commands_take_the_file_and_name_what_they_ignore(tmp_path: Path, option: str) -> None:
    read_server(
        tmp_path, "bootstrap.servers=127.0.0.1:1", f"ssl.key.passwords={SECRET}", "listeners=x"
    )
    file = str(tmp_path / "ksql-server.properties")
    result = CliRunner().invoke(app, ["backup", option, file])
    assert result.exit_code == 0
    assert "Backups are off" in result.stderr
    (tmp_path / "ksql-server.properties").write_text(
        "ksql.enable.metastore.backup=true\nlisteners=x\nbootstrap.servers=bad address\n"
    )
    result = CliRunner().invoke(app, ["backup", option, file])
    assert "keys without effect here: listeners." in result.stderr
    assert SECRET not in result.output
