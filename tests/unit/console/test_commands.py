"""The list of commands, and that listing imports none of them."""

import re
import sys
from types import ModuleType
from typing import Annotated

import pytest
import typer

from breakglass import __version__
from breakglass.console import commands
from breakglass.console.commands import (
    ALIASES,
    COMMANDS,
    CommandEntry,
    Deferred,
    new_app,
)
from scripts import cli_reference
from tests.kit.program import breakglass

CONTEXTS = {
    command.command_path.removeprefix("breakglass").strip(): command
    for command in cli_reference.commands()
}


@pytest.fixture
def light_module(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    module = ModuleType("light_module")
    app = new_app()

    @app.command()
    def light(colour: Annotated[str, typer.Option(help="Its colour.")] = "green") -> None:
        """Shine a light."""
        print(f"shining {colour}")

    vars(module)["app"] = app
    monkeypatch.setitem(sys.modules, "breakglass.light_module", module)
    entries = (
        CommandEntry("Lamps", "light", "Shine a light.", "light_module"),
        CommandEntry("Lamps", "broken", "Cannot be imported.", "no_such_module"),
    )
    monkeypatch.setattr(commands, "COMMANDS", entries)
    return module


@pytest.mark.usefixtures("light_module")
def test_the_list_names_a_command_without_importing_it_and_a_mistyped_one_has_a_hint() -> None:
    assert breakglass("--version").out == f"breakglass {__version__}\n"
    ended = breakglass("--help")
    assert ended.code == 0
    assert "light   Shine a light." in ended.out
    assert "broken  Cannot be imported." in ended.out
    assert breakglass("light", "--colour", "red").out == "shining red\n"
    assert "Its colour (default: green)." in breakglass("light", "-h").out
    ended = breakglass("lihgt")
    assert (ended.code, "'light'" in ended.err) == (2, True)


@pytest.mark.parametrize(
    ("words", "named"),
    [
        ((), "breakglass triage --json"),
        (("--write", "--profile", "prod"), "breakglass triage --json"),
        (("console", "--theme", "foo"), "'foo'"),
    ],
)
def test_without_a_command_the_console_opens_which_needs_a_terminal(
    words: tuple[str, ...], named: str
) -> None:
    ended = breakglass(*words)
    assert (ended.code, named in ended.err) == (2, True)


def test_every_listed_command_is_there_once_with_the_settings_all_share() -> None:
    assert len({entry.name for entry in COMMANDS}) == len(COMMANDS)
    for entry in COMMANDS:
        command = Deferred(entry).load()
        options = {name for param in command.params for name in param.opts}
        assert getattr(command, "rich_markup_mode", "?") is None, f"{entry.name}: use new_app()"
        assert "--install-completion" not in options, f"{entry.name}: use new_app()"
        assert command.help, f"{entry.name}: give it a docstring"


@pytest.mark.parametrize("old", ALIASES)
def test_a_name_from_before_is_the_command_that_has_another_name_now(old: str) -> None:
    was, is_now = (breakglass(*words.split(), "--help") for words in (old, ALIASES[old]))
    assert (was.code, was.out) == (0, is_now.out)
    listed = breakglass(*old.split()[:-1], "--help").out
    assert re.search(rf"^  {old.split()[-1]} ", listed, re.MULTILINE) is None, "it is not shown"


def test_the_options_of_a_connection_are_told_once() -> None:
    told = breakglass("help", "connection").out
    for name in ("--bootstrap-server", "--profile", "BREAKGLASS_PROFILE", "--native-rpc"):
        assert name in told
    for command in ("triage", "plan check", "recover"):
        assert "--native-rpc" not in (help := breakglass("help", *command.split()).out)
        assert "Connection: `breakglass help connection`" in help


OLDER = (
    ("backup run", "--to", "--store"),
    ("backup restore", "--from", "--store"),
    ("backup restore", "--state", "--progress"),
    ("backup verify", "--encrypt-key", "--key"),
    ("triage", "--topic", "--topics"),
    ("rescue", "--from", "--source"),
    ("rescue", "--to", "--rescue-to"),
    ("rescue", "--store", "--rescue-to"),
    ("lab drill", "--level", "--difficulty"),
    ("lab down", "--keep", "--keep-data"),
    ("serve metrics", "--out", "--textfile"),
    ("serve dashboard", "--records", "--show-records"),
    ("rescue", "--rate-limit", "--max-rate"),
    ("recover", "--store", "--rescue-to"),
    ("ksql backup", "--location", "--store"),
    ("ksql backup", "--config", "--config-file"),
    ("ksql restore", "--store", "--snapshots"),
    ("ksql compact", "--to", "--out"),
)


def test_an_older_name_of_an_option_is_read_and_not_shown() -> None:
    for command, older, shown in OLDER:
        context = CONTEXTS[command]
        parser = context.command.make_parser(context)
        value = [] if "keep" in older or "records" in older else ["20MB/s"]
        by_older, _, _ = parser.parse_args([older, *value])
        by_shown, _, _ = parser.parse_args([shown, *value])
        assert by_older == by_shown
        printed = context.get_help()
        assert (f"{shown} " in printed, f"{older} " in printed) == (True, False), (command, older)
