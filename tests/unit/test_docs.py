"""The documentation holds: its commands exist, its links lead somewhere, its pages are current."""

from __future__ import annotations

import re
import shlex
import shutil
import subprocess
from collections.abc import Iterator
from functools import cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from typer.core import TyperGroup
from typer.main import get_command

from breakglass.console.commands import Deferred, renamed
from breakglass.console.help import HelpedCommand, HelpedGroup
from scripts import cli_reference, links, manual, site
from tests.campaign import report, results
from tests.kit.access import Operation
from tests.kit.acl_page import asking_commands, needs_of_commands
from tests.kit.extent import missing

if TYPE_CHECKING:
    from typer._click import Command, Context

ROOT = Path(__file__).parents[2]
PROGRAMS = {
    "breakglass": "breakglass.console.cli",
    "kafka-unclean-recovery": "breakglass.console.unclean_recovery",
    "kafka-elect-leaders": "breakglass.console.leader_election",
    "ksql-restore-command-topic": "breakglass.console.restore_command_topic",
}
PICTURES = (*(ROOT / "docs" / "screens").iterdir(), *(ROOT / "docs" / "images").glob("*.svg"))
SHELL_STOPS = {"|", "<", ">", "2>", "&&", "||", ";", "&"}
SCREEN = (80, 24)
"""Columns and rows of the smallest terminal that an operator is expected to have."""


def console_lines(text: str) -> Iterator[str]:
    """Yield the commands of the fences marked ``console``: what follows ``$``."""
    for fence in re.findall(r"^```console\n(.*?)^```", text, re.MULTILINE | re.DOTALL):
        for line in fence.replace("\\\n", " ").splitlines():
            if line.startswith("$ "):
                yield line.removeprefix("$ ")


def words_of(line: str) -> list[str]:
    """Split *line* as a shell would, up to its first pipe or redirection."""
    words = shlex.split(line, comments=True)
    stop = next((at for at, word in enumerate(words) if word in SHELL_STOPS), len(words))
    return words[:stop]


def check_against(command: Command, name: str, words: list[str], parent: Context | None) -> None:
    """Parse *words* by the options of *command* and of the command they name within it."""
    context = command.make_context(name, [], parent, resilient_parsing=True)
    context.resilient_parsing = False
    assert isinstance(command, HelpedCommand | HelpedGroup)
    words = command.rewritten(context, words)
    given, rest, _ = command.make_parser(context).parse_args(words)
    if given.get("help"):
        return
    if isinstance(command, TyperGroup) and rest:
        member = command.get_command(context, rest[0])
        assert member is not None, f"{context.command_path} has no command {rest[0]}"
        real = member.load() if isinstance(member, Deferred) else member
        check_against(real, rest[0], rest[1:], context)
        return
    assert rest == [], f"{context.command_path} takes no {rest}"
    missing = [param.name for param in command.params if param.required and param.name not in given]
    assert missing == [], f"{context.command_path} needs {missing}"


@cache
def command_of(program: str) -> Command:
    return get_command(import_module(PROGRAMS[program]).app)


def check_line(line: str) -> None:
    """Fail unless *line* is a command of ours with options it has, or a target of make."""
    program, *words = words_of(line)
    if program == "make":
        targets = re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE)
        assert [word for word in words if "=" not in word and word not in targets] == []
    elif program in PROGRAMS:
        assert renamed(words) == words, f"{line}: an old name"
        check_against(command_of(program), program, words, None)


@pytest.mark.parametrize("page", links.pages(), ids=lambda page: str(page.relative_to(ROOT)))
def test_a_page_names_commands_that_exist(page: Path) -> None:
    for line in console_lines(page.read_text(encoding="utf-8")):
        check_line(line)


def test_the_runbook_fits_on_one_screen() -> None:
    columns, rows = SCREEN
    lines = (ROOT / "docs" / "runbook.md").read_text(encoding="utf-8").splitlines()
    assert [line for line in lines if len(line) > columns] == []
    assert len(lines) <= rows


@pytest.mark.parametrize("name", ["runbook.md", "troubleshooting.md"])
def test_the_commands_within_the_sentences_of_a_page_exist(name: str) -> None:
    text = (ROOT / "docs" / name).read_text(encoding="utf-8")
    spans = re.findall(r"`(breakglass[^`]*)`", text)
    assert len(spans) >= 3
    for line in spans:
        check_line(line)


OF_KAFKA = {"read_committed", "OFFSET_OUT_OF_RANGE", "NOT_ENOUGH_REPLICAS"}
"""Words of Kafka's own clients."""


def symptoms() -> set[str]:
    """What the tables of the troubleshooting page quote in their first column."""
    text = (ROOT / "docs" / "troubleshooting.md").read_text(encoding="utf-8")
    return {
        quoted
        for row in re.findall(r"^\| ([^|]+) \|", text, re.MULTILINE)
        for quoted in re.findall(r"`([^`]+)`", row)
    } - OF_KAFKA


def test_a_symptom_is_something_that_is_printed() -> None:
    sources = "".join(
        path.read_text(encoding="utf-8")
        for folder in ("console", "screens", "services")
        for path in sorted((ROOT / folder).rglob("*.py"))
    )
    # Sentences are written in pieces, one a line.
    printed = re.sub(r'"\s*f?"', "", sources)
    assert len(symptoms()) > 15
    unknown = [
        quoted
        for quoted in symptoms()
        # Brokers, figures, versions, topics and offsets stand for others.
        if not all(part in printed for part in re.split(r"\bb?\d[\d.]*(?: s)?|orders", quoted))
    ]
    assert unknown == []


def test_every_picture_of_a_screen_is_on_a_page() -> None:
    folder = ROOT / "docs" / "screens"
    pages = (page.read_text(encoding="utf-8") for page in (ROOT / "docs").glob("*.md"))
    shown = {name for text in pages for name in re.findall(r"\(screens/([^)]+)\)", text)}
    assert {path.name for path in folder.iterdir()} == shown


@pytest.mark.parametrize("picture", PICTURES, ids=lambda path: path.name)
def test_a_picture_needs_no_other_host_and_runs_nothing(picture: Path) -> None:
    text = picture.read_text(encoding="utf-8")
    assert {*re.findall(r"\w+://[^\s\"<]+", text)} == {"http://www.w3.org/2000/svg"}
    assert re.findall(r"<script|<foreignObject| on\w+=|@import|@font-face|<!|<\?", text) == []


def test_the_page_of_the_campaign_is_what_its_results_say() -> None:
    from_results = report.page(results.read(report.RESULTS).values())
    assert report.PAGE.read_text(encoding="utf-8") == from_results


def test_the_page_of_acls_has_a_row_for_every_command_that_asks_a_cluster() -> None:
    needs = needs_of_commands()
    assert set(needs) == asking_commands()
    asked = {word for need in needs.values() for word in (*need.topic, *need.cluster, *need.group)}
    assert asked <= Operation.__members__.keys()


def test_the_readme_has_the_figures_of_the_campaign() -> None:
    readme, page = (ROOT / "README.md").read_text("utf-8"), report.PAGE.read_text("utf-8")
    (incidents,) = re.findall(r"^\| Incidents \| ([\d,]+) \|", page, re.MULTILINE)
    ((ours, theirs),) = re.findall(r"lost by an election\*\* \| ([\d,]+) \| ([\d,]+) \|", page)
    assert f"campaign of {incidents} random incidents" in readme
    assert f"lost **{ours}** records" in readme
    assert f"lost {theirs}." in readme


def test_every_page_is_in_the_menu_of_the_site_and_linked_from_the_index() -> None:
    assert site.wrong() == []
    linked = {
        link
        for name in ("index.md", "cli.md")
        for link in re.findall(r"\]\(([^)#\s]+)", (ROOT / "docs" / name).read_text("utf-8"))
    }
    pages = {page for page in site.menu() if not page.startswith(f"{site.PROJECT}/")}
    assert pages - linked == {"index.md"}


def test_contributing_names_every_folder_of_the_services() -> None:
    text = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    folders = {path.parent.name for path in (ROOT / "services").glob("*/__init__.py")}
    assert {folder for folder in folders if f"`services/{folder}/`" not in text} == set()


def test_the_man_page_is_roff_without_a_fault(tmp_path: Path) -> None:
    if shutil.which("groff") is None:
        missing("needs groff: apt-get install groff-base")
    page = manual.SHARE / manual.PAGE
    done = subprocess.run(["groff", "-man", "-ww", "-Tascii", page], capture_output=True, text=True)
    assert (done.returncode, done.stderr) == (0, "")
    shown = re.sub(r".\x08", "", done.stdout)
    for word in ("breakglass doctor", "--bootstrap-server", "--consent", "EXIT STATUS"):
        assert word in shown


def test_every_command_and_option_has_help() -> None:
    silent = [
        command.command_path for command in cli_reference.commands() if not command.command.help
    ]
    silent += [
        f"{context.command_path} {option.name}"
        for context in cli_reference.commands()
        for option in context.command.params
        if not getattr(option, "help", None)
    ]
    assert silent == []
