"""What the shell offers on TAB, by the protocol that the shell itself speaks."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.console.commands import COMMANDS
from breakglass.console.console import SCREENS

RUN = "from breakglass.console.cli import main; raise SystemExit(main())"


def offered(line: str) -> list[str]:
    """What bash is given for *line*, whose last word is the one to complete."""
    asked = {
        "_BREAKGLASS_COMPLETE": "complete_bash",
        "COMP_WORDS": line,
        "COMP_CWORD": str(line.count(" ")),
    }
    # As the installed program is called: by its name, which the variable's name is made from.
    run = f"import sys; sys.argv = ['breakglass']; {RUN}"
    done = subprocess.run(
        [sys.executable, "-c", run],
        env={**os.environ, **asked},
        capture_output=True,
        text=True,
        check=True,
        timeout=60,
    )
    assert done.stderr == ""
    return done.stdout.split()


def test_a_command_is_offered_by_its_beginning() -> None:
    assert offered("breakglass pl") == ["plan"]


def test_every_command_is_offered_where_nothing_is_typed() -> None:
    assert offered("breakglass ") == [one.name for one in COMMANDS]


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
    ],
)
def test_members_options_and_values_are_offered(line: str, word: str) -> None:
    assert word in offered(line)


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
