"""When the environment is made again, and that uv is given no chance to fetch a Python."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from scripts import environment

UV = """#!{python}
import json, os, sys
with open({log!r}, "a") as log:
    log.write(json.dumps([sys.argv[1:], os.environ.get("UV_PYTHON_DOWNLOADS")]) + "\\n")
if "--offline" in sys.argv and os.path.exists({empty_cache!r}):
    sys.exit("sync" in sys.argv)
if sys.argv[1] == "venv":
    os.makedirs(sys.argv[-2] + "/bin")
    os.symlink({python!r}, sys.argv[-2] + "/bin/python")
"""


@pytest.fixture
def checkout(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkout of its own, on a path that holds a uv which only writes down what it is told."""
    for name in environment.INPUTS:
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text(name)
    monkeypatch.setattr(environment, "ROOT", tmp_path)
    uv = tmp_path / "uv"
    uv.write_text(
        UV.format(
            python=environment.base_python(),
            log=str(tmp_path / "log"),
            empty_cache=str(tmp_path / "empty cache"),
        )
    )
    uv.chmod(0o755)
    monkeypatch.setattr(environment, "find_uv", lambda _environ: uv)
    return tmp_path


def told(checkout: Path) -> list[str]:
    """Return what uv was told to do and whether without a network; forgets it."""
    log = checkout / "log"
    calls = [json.loads(line) for line in log.read_text().splitlines()] if log.exists() else []
    log.unlink(missing_ok=True)
    assert {downloads for _, downloads in calls} <= {"never"}
    verbs = ("venv", "sync", "install", "--offline")
    return [" ".join(verb for verb in verbs if verb in words) for words, _ in calls]


MADE_AGAIN = ["sync --offline", "install --offline"]


def test_the_first_run_makes_it_and_the_second_does_nothing(checkout: Path) -> None:
    assert environment.main() == 0
    assert told(checkout) == ["venv", *MADE_AGAIN]
    assert environment.main() == 0
    assert told(checkout) == []


def test_an_environment_of_another_name_stands_beside_the_first(checkout: Path) -> None:
    assert environment.main() == 0
    assert environment.main(".venv-3.13") == 0
    assert told(checkout) == ["venv", *MADE_AGAIN] * 2
    assert (checkout / ".venv-3.13" / "breakglass.stamp").exists()
    assert environment.main() == environment.main(".venv-3.13") == 0
    assert told(checkout) == []


def test_what_the_cache_lacks_is_fetched(checkout: Path) -> None:
    (checkout / "empty cache").touch()
    assert environment.main() == 0
    assert told(checkout) == ["venv", "sync --offline", "sync", "install --offline"]


@pytest.mark.parametrize("name", environment.INPUTS)
def test_a_change_of_what_it_is_made_from_makes_it_again(checkout: Path, name: str) -> None:
    environment.main()
    told(checkout)
    (checkout / name).write_text("changed")
    assert environment.main() == 0
    assert told(checkout) == MADE_AGAIN


def test_an_environment_whose_interpreter_is_gone_is_made_again(checkout: Path) -> None:
    environment.main()
    told(checkout)
    (checkout / ".venv" / "bin" / "python").unlink()
    (checkout / ".venv" / "bin").rmdir()
    assert environment.main() == 0
    assert told(checkout)[0] == "venv"


def test_a_failure_of_uv_is_said_and_tried_again_next_time(
    checkout: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    good = (checkout / "uv").read_text()
    (checkout / "uv").write_text(f"#!{sys.executable}\nraise SystemExit(7)\n")
    assert environment.main() == 7
    assert "uv could not make .venv" in capsys.readouterr().err
    (checkout / "uv").write_text(good)
    assert environment.main() == 0
    assert told(checkout) != []
