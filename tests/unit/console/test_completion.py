"""What the shell offers on TAB, by the protocol that the shell itself speaks."""

from __future__ import annotations

import socket
import time
from pathlib import Path

import pytest

from breakglass.console.commands import COMMANDS
from breakglass.console.console import SCREENS
from breakglass.services import patience
from tests.kit.program import offered


def test_a_command_is_offered_by_its_beginning() -> None:
    assert offered("breakglass pl") == ["plan"]


def test_every_command_is_offered_where_nothing_is_typed() -> None:
    assert offered("breakglass ") == [command.name for command in COMMANDS]


@pytest.mark.parametrize(
    ("line", "word"),
    [
        ("breakglass plan ma", "make"),
        ("breakglass --wri", "--write"),
        ("breakglass --vers", "--version"),
        ("breakglass console --asc", "--ascii"),
        ("breakglass backup run --compress ", "zstd"),
        ("breakglass triage --native-rpc a", "auto"),
        ("breakglass console --theme breakglass-l", "breakglass-light"),
        ("breakglass lab scenario stale", "stale-replicas"),
    ],
)
def test_members_options_and_values_are_offered(line: str, word: str) -> None:
    assert word in offered(line)


def test_an_older_name_of_an_option_is_not_offered() -> None:
    assert "--topics" in offered("breakglass triage --top")
    assert "--topic" not in offered("breakglass triage --top")


def test_no_topics_are_offered_where_no_cluster_answers_in_time() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        began = time.monotonic()
        assert offered(f"breakglass triage --bootstrap-server 127.0.0.1:{port} --topics o") == []
    took = time.monotonic() - began
    nothing = time.monotonic()
    assert offered("breakglass triage --bootstrap-server 127.0.0.1:1 --topics o") == []
    assert took - (time.monotonic() - nothing) < 2 * patience.COMPLETION


def test_screens_and_profiles_are_offered(user_folders: Path) -> None:
    folder = user_folders / "config" / "breakglass" / "profiles"
    folder.mkdir(parents=True)
    (folder / "prod-eu.toml").touch()
    assert offered("breakglass console --screen ") == list(SCREENS)
    assert offered("breakglass triage --profile pr") == ["prod-eu"]


def test_a_profile_that_cannot_be_read_offers_nothing(user_folders: Path) -> None:
    folder = user_folders / "config" / "breakglass"
    folder.mkdir(parents=True)
    (folder / "profiles.toml").write_text("[")
    assert offered("breakglass triage --profile pr") == []
