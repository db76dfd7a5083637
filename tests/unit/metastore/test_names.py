"""Names of topics and backup files, in the KLIP's style and in ksqlDB's."""

from __future__ import annotations

import pytest

from breakglass.services.metastore.settings import (
    BackupName,
    Style,
    command_topic,
    new_name,
    newest,
    parse_name,
    service_of,
)

TOPIC = command_topic("default_")


def test_the_default_service_has_the_topic_of_the_klip() -> None:
    assert TOPIC == "_confluent-ksql-default__command_topic"
    assert service_of(TOPIC) == "default_"
    assert service_of("orders") is None


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


def test_upper_case_services_find_their_files() -> None:
    """ksqlDB itself does not: it compares a lower-case name (CommandTopicBackupImpl)."""
    topic = command_topic("PROD")
    assert newest([f"backup_{topic}_7"], topic) == BackupName(7, Style.SHIPPED, topic)


def test_the_newest_is_continued_whatever_its_style() -> None:
    names = [f"{TOPIC}_100.bak", f"backup_{TOPIC}_99999", f"{TOPIC}_99.bak"]
    assert str(newest(names, TOPIC)) == f"{TOPIC}_100.bak"
    assert str(newest([*names, f"backup_{TOPIC}_100001"], TOPIC)) == f"backup_{TOPIC}_100001"


@pytest.mark.parametrize("style", list(Style))
def test_a_new_name_never_collides_and_becomes_the_newest(style: Style) -> None:
    names: list[str] = [f"{TOPIC}_200.bak", f"backup_{TOPIC}_150500"]
    for _ in range(5):
        name = new_name(names, TOPIC, style, 100_000)
        assert str(name) not in names
        names.append(str(name))
        assert newest(names, TOPIC) == name
