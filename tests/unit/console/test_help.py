"""What the help of every command keeps to, and when it says to use which command."""

import re

import pytest
from typer.core import TyperGroup, TyperOption

from scripts import cli_reference

CONTEXTS = {
    command.command_path.removeprefix("breakglass "): command
    for command in cli_reference.commands()
}
HELP = {name: context.get_help() for name, context in CONTEXTS.items()}
COMMANDS = {
    name: {
        option.opts[0]: option
        for option in context.command.params
        if isinstance(option, TyperOption) and not option.hidden
    }
    for name, context in CONTEXTS.items()
    if not isinstance(context.command, TyperGroup)
}
"""The options of each command that help shows, by name."""
NO_REPORT = {
    *("console", "serve dashboard", "serve metrics", "serve checkpoints"),
    *(
        f"lab {act}"
        for act in ("kill", "stop", "wait-fenced", "wipe", "start", "pause", "resume", "down")
    ),
}
"""Commands without ``--json``: screens, servers, and what prints nothing or the lines alone."""


def test_help_has_no_types_no_ranges_no_braces_and_nothing_cut() -> None:
    typed = r"<(int|str|float|path|choice)|range>|[{}]|<=x|x>=|\[\["
    assert [name for name, printed in HELP.items() if re.search(typed, printed)] == []
    cut = re.compile(r"[a-z]\.\.\.$", re.MULTILINE)
    assert [name for name, printed in HELP.items() if cut.search(printed)] == []


def test_every_command_that_reports_has_json() -> None:
    assert {name for name, options in COMMANDS.items() if "--json" not in options} == NO_REPORT


def test_an_option_has_one_help_wherever_it_is() -> None:
    texts: dict[str, set[str | None]] = {}
    for shown in COMMANDS.values():
        for name, option in shown.items():
            texts.setdefault(name, set()).add(option.help)
    assert {name: found for name, found in texts.items() if len(found) > 1} == {}


def test_a_word_stands_for_one_thing() -> None:
    for command, shown in COMMANDS.items():
        metavars = {name: one.metavar for name, one in shown.items()}
        assert metavars.get("--from") is metavars.get("--to") is None, "offsets have no metavar"
        others = {"--location", "--backups", "--encrypt-key", "--delete"}
        others |= set() if command.startswith("lab ") else {"--state"}
        assert shown.keys().isdisjoint(others), command
        if "--topics" in shown:
            assert (metavars["--topics"], shown["--topics"].multiple) == ("A,B", True), command


@pytest.mark.parametrize("name", ["recover", "unclean-recovery", "leader-election", "rescue"])
def test_each_command_of_a_recovery_says_when_to_use_which(name: str) -> None:
    _, heading, guide = HELP[name].partition("Which command:")
    assert heading
    for other in ("recover", "unclean-recovery", "leader-election", "rescue"):
        assert re.search(rf"^  {other}  +\w", guide, re.MULTILINE)
