"""Write the man page and the completions, from the commands' own help, into ``share``.

They are part of the wheel, which installs ``share`` beside its programs: `man breakglass` finds the
page there, and shells find the completions. ``--check`` says whether they are current.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer._completion_shared import get_completion_script

from breakglass import __version__
from scripts.cli_reference import commands

if TYPE_CHECKING:
    from typer._click import Context

UNITS = "systemd/"
"""The folder of share that nothing is written into."""
SHARE = Path(__file__).resolve().parent.parent / "share"
PROGRAM = "breakglass"
PAGE = "man/man1/breakglass.1"
COMPLETIONS = {
    "bash": "bash-completion/completions/breakglass",
    "zsh": "zsh/site-functions/_breakglass",
    "fish": "fish/vendor_completions.d/breakglass.fish",
}
CONNECTION = "Connection"
EXIT_CODES = {
    "0": "Done.",
    "1": "Failed, or partly failed.",
    "2": "The command line or a file is wrong; nothing was done.",
    "3": "Refused by a guard; nothing was changed.",
    "4": "Unknown: something was sent, and no answer came.",
    "130": "Interrupted by a signal.",
}


def files() -> dict[str, str]:
    """What each file below ``share`` holds, except the units."""
    scripts = {
        path: get_completion_script(
            prog_name=PROGRAM, complete_var=f"_{PROGRAM.upper()}_COMPLETE", shell=shell
        )
        for shell, path in COMPLETIONS.items()
    }
    return {PAGE: page(), **{path: f"{script}\n" for path, script in scripts.items()}}


def page() -> str:
    """The man page, as roff."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    first, *rest = commands()
    yield ".\\\" Written by `make docs` from the commands' own help; do not edit."
    yield f'.TH BREAKGLASS 1 "" "Breakglass {__version__}" "User Commands"'
    yield ".SH NAME"
    yield "breakglass \\- bring offline Kafka partitions back, with the least possible loss"
    yield ".SH SYNOPSIS"
    yield from (".B breakglass", ".RI [ command ]", ".RI [ options ]")
    yield ".SH DESCRIPTION"
    yield from _paragraphs(first.command.help or "")
    yield ".SH COMMANDS"
    for context in rest:
        yield f".SS {_text(context.command_path)}"
        yield from _paragraphs(context.command.help or "")
        yield from _options(
            option
            for option in _shown(context)
            if getattr(option, "rich_help_panel", "") != CONNECTION
        )
    yield ".SH CONNECTION OPTIONS"
    yield "Commands that ask a cluster have these options."
    yield from _options(_connection(rest))
    yield ".SH EXIT STATUS"
    for code, meaning in EXIT_CODES.items():
        yield from (".TP", f".B {code}", _text(meaning))
    yield ".SH SEE ALSO"
    yield _text("The documentation of the project, in the folder docs of its source distribution.")


def _shown(context: Context) -> Iterator[Any]:
    for param in context.command.params:
        if not getattr(param, "hidden", False):
            yield _Record(param, context)


class _Record:
    """An option or an argument, as its help has it."""

    def __init__(self, param: Any, context: Context) -> None:
        self.rich_help_panel = getattr(param, "rich_help_panel", None)
        self.name = str(param.name)
        record = param.get_help_record(context)
        self.help: tuple[str, str] = ("", "") if record is None else record


def _connection(contexts: list[Context]) -> Iterator[_Record]:
    """The options of the panel, each once, as the first command that has it says."""
    found: dict[str, _Record] = {}
    for context in contexts:
        for option in _shown(context):
            if option.rich_help_panel == CONNECTION:
                found.setdefault(option.name, option)
    yield from found.values()


def _options(records: Iterator[_Record]) -> Iterator[str]:
    for record in records:
        name, help = record.help
        if name:
            yield from (".TP", f".B {_text(name)}", _text(" ".join(help.split())))


def _paragraphs(help: str) -> Iterator[str]:
    for number, paragraph in enumerate(re.split(r"\n\s*\n", help.strip())):
        if number:
            yield ".PP"
        yield _text(" ".join(paragraph.split()))


def _text(words: str) -> str:
    """*words* as roff prints them, whatever they begin with."""
    escaped = words.replace("\\", "\\e").replace("-", "\\-")
    return f"\\&{escaped}" if escaped[:1] in (".", "'") else escaped


def main(arguments: list[str]) -> int:
    """Write the files, or with ``--check`` compare; returns the exit code."""
    wanted = files()
    there = {str(path.relative_to(SHARE)) for path in SHARE.rglob("*") if path.is_file()}
    there = {name for name in there if not name.startswith(UNITS)}
    stale = [
        name
        for name, content in wanted.items()
        if name not in there or (SHARE / name).read_text(encoding="utf-8") != content
    ]
    if "--check" in arguments:
        if stale or there != wanted.keys():
            print(f"share/ is not what the commands' help says ({', '.join(stale)}): `make docs`.")
        return int(bool(stale) or there != wanted.keys())
    for name in stale:
        (SHARE / name).parent.mkdir(parents=True, exist_ok=True)
        (SHARE / name).write_text(wanted[name], encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
