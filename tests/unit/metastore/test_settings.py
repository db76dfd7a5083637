"""What a server's properties say of backups: both spellings of the switch, and the shipped one."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from breakglass.services.errors import BadConnectionSettings
from breakglass.services.metastore.server_config import read_server_config
from breakglass.services.metastore.settings import (
    MetastoreSettings,
    Style,
    local_folder,
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


@pytest.mark.parametrize("key", [ONE, OTHER])
@pytest.mark.parametrize(("value", "enabled"), [("true", True), ("TRUE", True), ("false", False)])
def test_either_spelling_decides(read: Read, key: str, value: str, enabled: bool) -> None:
    settings = read(f"{key}={value}", f"{LOCATION}=/var/backups")
    assert settings.enabled is enabled
    assert settings.why == f"{key} is {value.lower()}"
    assert settings.style is Style.KLIP
    assert settings.location == Path("/var/backups")


def test_spellings_that_agree_are_taken(read: Read) -> None:
    assert read(f"{ONE}=true", f"{OTHER}=true").enabled


def test_spellings_that_differ_are_refused(read: Read) -> None:
    with pytest.raises(BadConnectionSettings, match="contradicts"):
        read(f"{ONE}=true", f"{OTHER}=false")


def test_without_the_switch_nothing_is_on(read: Read) -> None:
    settings = read("ksql.service.id=prod_")
    assert not settings.enabled
    assert ONE in settings.why
    assert settings.topic == "_confluent-ksql-prod__command_topic"


def test_a_location_alone_is_on_as_ksqldb_was_shipped(read: Read) -> None:
    settings = read(f"{LOCATION}=/var/backups")
    assert settings.enabled
    assert settings.style is Style.SHIPPED
    assert settings.why == f"{LOCATION} is set"


def test_the_switch_alone_leaves_the_location_to_the_default(read: Read) -> None:
    assert read(f"{ONE}=true").location is None


@pytest.mark.parametrize("url", ["s3://bucket/a", "file:///var/a", "file:/var/a", "HDFS://a/b"])
def test_urls_are_refused(read: Read, url: str) -> None:
    with pytest.raises(BadConnectionSettings, match="is a URL"):
        read(f"{ONE}=true", f"{LOCATION}={url}")
    with pytest.raises(BadConnectionSettings, match="--store is a URL"):
        local_folder(url)


def test_what_is_no_truth_value_is_refused(read: Read) -> None:
    with pytest.raises(BadConnectionSettings, match="choose one of true, false"):
        read(f"{ONE}=yes")


def test_replicas_and_prefixes_are_read(read: Read) -> None:
    settings = read(
        "ksql.internal.topic.replicas=3",
        "ksql.internal.topic.min.insync.replicas=2",
        "ksql.persistent.prefix=q_",
    )
    assert (settings.replicas, settings.min_insync, settings.persistent_prefix) == (3, 2, "q_")
