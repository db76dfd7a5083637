"""`breakglass doctor` on this machine: its lines, its JSON, its exit code."""

from __future__ import annotations

import pytest

from tests.kit.program import breakglass

CONNECTING = ("BREAKGLASS_BOOTSTRAP_SERVER", "BREAKGLASS_PROFILE", "BREAKGLASS_COMMAND_CONFIG")


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in CONNECTING:
        monkeypatch.delenv(name, raising=False)


def test_without_a_cluster_the_machine_alone_is_examined() -> None:
    ended = breakglass("doctor", "--json")

    document = ended.document
    states = {check["name"]: check["state"] for check in document["checks"]}
    assert document["schema"] == 1
    assert states["cluster"] == "?"
    assert {"versions", "java", "terminal", "locale", "space for a rescue"} <= states.keys()
    assert document["todo"] == sum(state == "do" for state in states.values())
    assert ended.code == (1 if document["todo"] else 0)


def test_a_cluster_that_does_not_answer_is_something_to_do() -> None:
    ended = breakglass("doctor", "--bootstrap-server", "127.0.0.1:1")

    assert ended.code == 1
    (line,) = [line for line in ended.out.splitlines() if line.startswith("do     cluster")]
    assert "127.0.0.1:1" in line
    assert ended.err == ""


def test_a_locale_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")

    ended = breakglass("doctor")

    assert ended.code == 1
    assert "xx_XX.UTF-8" in ended.out
