"""What the shell offers on TAB, by the protocol that the shell itself speaks."""

import socket
from pathlib import Path

import pytest

from breakglass.console.console import SCREENS
from breakglass.services.model import TopicPartition
from tests.kit.fake_cluster import FakeCluster
from tests.kit.program import offered


@pytest.mark.parametrize(
    ("line", "words"),
    [
        ("breakglass pl", ["plan"]),
        ("breakglass plan ma", ["make"]),
        ("breakglass --wri", ["--write"]),
        ("breakglass --vers", ["--version"]),
        ("breakglass console --asc", ["--ascii"]),
        ("breakglass console --screen ", list(SCREENS)),
        ("breakglass backup run --compress z", ["zstd"]),
        ("breakglass triage --native-rpc a", ["auto"]),
        ("breakglass console --theme breakglass-l", ["breakglass-light"]),
        ("breakglass lab scenario stale-r", ["stale-replicas"]),
    ],
)
def test_members_options_and_values_are_offered(line: str, words: list[str]) -> None:
    assert offered(line) == words


def test_no_topics_are_offered_while_no_cluster_answers_and_no_older_name_ever() -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        port = silent.getsockname()[1]
        assert offered(f"breakglass triage --bootstrap-server 127.0.0.1:{port} --topics o") == []
    assert "--topics" in offered("breakglass triage --top")
    assert "--topic" not in offered("breakglass triage --top")


@pytest.mark.parametrize("name", ["o\x1b]0;x\x07", "o;reboot", "o\nx", "o$(reboot)", "o r", ""])
def test_s13_a_name_that_no_topic_can_have_is_not_offered_to_a_shell(name: str) -> None:
    with FakeCluster(1) as cluster:
        for topic in ("orders", name):
            cluster.story.offline(TopicPartition(topic, 0), (1,))
        server = cluster.brokers[1].endpoint
        assert offered(f"breakglass triage --bootstrap-server {server} --topics o") == []


def test_profiles_are_offered_and_none_where_they_cannot_be_read(user_folders: Path) -> None:
    folder = user_folders / "config" / "breakglass"
    (folder / "profiles").mkdir(parents=True)
    (folder / "profiles" / "prod-eu.toml").touch()
    assert offered("breakglass triage --profile pr") == ["prod-eu"]
    (folder / "profiles.toml").write_text("[")
    assert offered("breakglass triage --profile pr") == []
