"""What the help of every command keeps to, and when it says to use which command."""

from __future__ import annotations

import re

import pytest
from typer.core import TyperGroup, TyperOption

from scripts import cli_reference

CONTEXTS = {command.command_path: command for command in cli_reference.commands()}
COMMANDS = {path: one for path, one in CONTEXTS.items() if not isinstance(one.command, TyperGroup)}
NO_REPORT = {
    "console": "a screen",
    "serve": "a server",
    "exporter": "a server",
    "checkpoint serve": "a server",
    "metastore lines": "prints the lines themselves",
    "lab kill": "prints nothing",
    "lab stop": "prints nothing",
    "lab wait-fenced": "prints nothing",
    "lab start": "prints nothing",
    "lab pause": "prints nothing",
    "lab resume": "prints nothing",
    "lab down": "prints nothing",
}
"""Commands without ``--json``, and why."""


def options(path: str) -> dict[str, TyperOption]:
    """The options of a command that help shows, by name."""
    params = CONTEXTS[path].command.params
    shown = [param for param in params if isinstance(param, TyperOption) and not param.hidden]
    return {option.opts[0]: option for option in shown}


@pytest.mark.parametrize("path", CONTEXTS)
def test_help_has_no_types_no_ranges_no_braces_and_nothing_cut(path: str) -> None:
    printed = CONTEXTS[path].get_help()
    assert not re.search(r"<(int|str|float|path|choice)|range>|[{}]|<=x|x>=|\[\[", printed)
    assert not re.search(r"[a-z]\.\.\.$", printed, re.MULTILINE)


@pytest.mark.parametrize("path", COMMANDS)
def test_every_command_that_reports_has_json(path: str) -> None:
    name = path.removeprefix("breakglass ")
    assert ("--json" in options(path)) != (name in NO_REPORT)


@pytest.mark.parametrize("path", COMMANDS)
def test_a_connection_is_a_section_of_its_own_below_the_options(path: str) -> None:
    if "--bootstrap-server" not in options(path):
        return
    own, _, connection = CONTEXTS[path].get_help().partition("\nConnection:\n")
    for name in ("--bootstrap-server", "--profile", "--listener", "--native-rpc"):
        assert f"\n  {name} " in f"\n{connection}"
        assert f"\n  {name} " not in own


@pytest.mark.parametrize("path", COMMANDS)
def test_a_word_stands_for_one_thing(path: str) -> None:
    shown = options(path)
    metavars = {name: one.metavar for name, one in shown.items()}
    assert metavars.get("--from") is metavars.get("--to") is None, "offsets have no metavar"
    assert shown.keys().isdisjoint({"--location", "--backups", "--encrypt-key", "--delete"})
    if path.split()[1] != "lab":
        assert "--state" not in shown
    if "--topics" in shown:
        assert (metavars["--topics"], shown["--topics"].multiple) == ("A,B", True)


@pytest.mark.parametrize("name", ["recover", "unclean-recovery", "leader-election", "rescue"])
def test_each_command_of_a_recovery_says_when_to_use_which(name: str) -> None:
    _, heading, guide = CONTEXTS[f"breakglass {name}"].get_help().partition("Which command:")
    assert heading
    for other in ("recover", "unclean-recovery", "leader-election", "rescue"):
        assert re.search(rf"^  {other}  +\w", guide, re.MULTILINE)


def test_commands_stand_in_sections() -> None:
    printed = CONTEXTS["breakglass"].get_help()
    sections = re.findall(r"^(\w+):$", printed, re.MULTILINE)
    assert sections == ["Options", "Incident", "Backup", "Checkpoint", "Metastore", "Lab"]


def test_a_default_is_in_the_sentence() -> None:
    printed = CONTEXTS["breakglass checkpoint take"].get_help()
    assert "Maximum copy rate (default: unlimited)." in printed
