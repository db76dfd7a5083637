"""`breakglass doctor` on this machine: its document, its exit code."""

import pytest

from tests.kit.program import breakglass
from tests.unit.console.fakes import NOBODY


@pytest.fixture(autouse=True)
def no_cluster(monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("BREAKGLASS_BOOTSTRAP_SERVER", "BREAKGLASS_PROFILE", "BREAKGLASS_COMMAND_CONFIG"):
        monkeypatch.delenv(name, raising=False)


def test_without_a_cluster_the_machine_alone_is_examined() -> None:
    ended = breakglass("doctor", "--json")
    found = {check["name"]: check["state"] for check in ended.document["checks"]}
    assert found["cluster"] == "?"
    assert {"versions", "java", "terminal", "locale", "space for a rescue"} <= found.keys()
    assert ended.document["todo"] == sum(state == "do" for state in found.values())
    assert ended.code == (1 if ended.document["todo"] else 0)


def test_a_silent_cluster_and_a_missing_locale_are_something_to_do(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("LC_ALL", "xx_XX.UTF-8")
    ended = breakglass("doctor", *NOBODY)
    assert (ended.code, ended.err) == (1, "")
    lines = [line for line in ended.out.splitlines() if line.startswith("do ")]
    assert ["127.0.0.1:1" in line for line in lines if " cluster " in line] == [True]
    assert ["xx_XX.UTF-8" in line for line in lines if " locale " in line] == [True]
