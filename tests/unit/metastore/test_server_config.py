"""A ksqlDB server's own properties: how it connects, and which keys are named as ignored."""

from __future__ import annotations

from pathlib import Path

import pytest
from typer.testing import CliRunner

from breakglass.console.metastore import app
from breakglass.services.connection.settings import ConnectionSettings, Endpoint, SecurityProtocol
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.metastore.server_config import KsqlServerConfig, read_server_config

SECRET = "hunter2-of-the-server"
JAAS = f'x.PlainLoginModule required username="u" password="{SECRET}";'


def read(folder: Path, *lines: str) -> KsqlServerConfig:
    file = folder / "ksql-server.properties"
    file.write_text("\n".join(lines))
    file.chmod(0o600)
    return read_server_config(file, {"PLACE": "/from/env"})


def connected(found: KsqlServerConfig, server: str | None = None) -> ConnectionSettings:
    options = ConnectionOptions(bootstrap_server=server)
    return connection_settings(options, {}, client_file=found.client_file)


def test_a_servers_file_says_where_what_and_how(tmp_path: Path) -> None:
    found = read(
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
    assert settings.notes == ()
    assert found.remarks == (
        "ksql-server.properties: keys without effect here: ksql.schema.registry.url, "
        "ksql.server.command.producer.sasl.jaas.config, listeners.",
    )
    assert SECRET not in repr((found, settings, found.remarks))


@pytest.mark.parametrize(
    ("lines", "host"),
    [
        (["ksql.streams.bootstrap.servers=streams:1"], "streams"),
        (["bootstrap.servers=plain:1", "ksql.streams.bootstrap.servers=streams:1"], "plain"),
        (
            ["ksql.server.command.consumer.bootstrap.servers=own:1", "bootstrap.servers=plain:1"],
            "own",
        ),
    ],
)
def test_the_command_topics_own_client_wins(tmp_path: Path, lines: list[str], host: str) -> None:
    assert connected(read(tmp_path, *lines)).bootstrap_servers == (Endpoint(host, 1),)


def test_a_prefixed_key_leaves_the_others_of_its_security(tmp_path: Path) -> None:
    """ksqlDB puts prefixed keys over the plain ones, key by key."""
    found = read(
        tmp_path,
        "bootstrap.servers=far:1",
        "security.protocol=SASL_PLAINTEXT",
        "sasl.mechanism=PLAIN",
        f"ksql.server.command.consumer.sasl.jaas.config={JAAS}",
    )
    assert connected(found).sasl is not None


def test_a_key_that_is_misspelt_is_named_with_the_one_that_is_meant(tmp_path: Path) -> None:
    found = read(tmp_path, "ksql.metastore.backup.locations=/var")
    assert found.remarks[1].endswith("Is ksql.metastore.backup.location meant?")
    assert found.settings.location is None


@pytest.mark.parametrize("option", ["--config-file", "--server-config", "--config"])
def test_the_commands_take_the_file_and_name_what_they_ignore(tmp_path: Path, option: str) -> None:
    read(tmp_path, "bootstrap.servers=127.0.0.1:1", f"ssl.key.passwords={SECRET}", "listeners=x")
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
