"""Write ``docs/options.md``: our options beside those of Kafka, Kafka Backup and ksqlDB.

What our options are called is read from the commands, which keys a connector's file is read for
from its reader, and the rest from ``option_names.toml``. ``--check`` says whether the page is
current. A row whose option no command has, or whose difference has no reason, ends the script.
"""

from __future__ import annotations

import re
import sys
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from breakglass.services.metastore.settings import TAKEN
from breakglass.services.topic_backup.connector import KEYS
from scripts.cli_reference import commands

NAMES = Path(__file__).with_name("option_names.toml")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"
CONNECTION = ("--profile", "--broker-address", "--listener", "--native-rpc")
EVERYWHERE = ("--bootstrap-server", "--command-config", *CONNECTION, "--json", "--consent")
"""Options that are in so many commands that the lists of each command leave them out."""
HEAD = """# Options beside those of other tools

Written by `make docs` from the commands, from the reader of a connector's properties, and from
`scripts/option_names.toml`; do not edit.

"Same name" and "older name" mean that theirs can be typed here as well.
"""
OPTION = re.compile(r"`((?:[a-z]+[a-z -]*?)) (--[a-z-]+)`")
COMMAND = re.compile(r"`([a-z][a-z -]*)`")


class Mistake(Exception):
    """Names and program contradict each other."""


@dataclass(frozen=True, slots=True)
class OptionNames:
    """What one option of one command is called."""

    command: str
    shown: tuple[str, ...]
    """The name that help shows, and the opposite of a flag."""
    older: tuple[str, ...]

    @property
    def every(self) -> tuple[str, ...]:
        """All that can be typed."""
        return self.shown + self.older


@cache
def options() -> tuple[OptionNames, ...]:
    """Every option that help shows, command by command."""
    return tuple(
        OptionNames(
            context.command_path.removeprefix("breakglass").strip(),
            (param.opts[0], *param.secondary_opts),
            _older(context.command, param),
        )
        for context in commands()
        for param in context.command.params
        if param.param_type_name == "option" and not getattr(param, "hidden", False)
    )


@cache
def _paths() -> frozenset[str]:
    return frozenset(context.command_path.removeprefix("breakglass ") for context in commands())


def _older(command: Any, param: Any) -> tuple[str, ...]:
    names: Mapping[Any, tuple[str, ...]] = command.older.names
    return tuple(names.get(param, ()))


def page() -> str:
    """Return the text of the page. Raises Mistake."""
    ours = options()
    told = tomllib.loads(NAMES.read_text(encoding="utf-8"))
    rows = [_counterpart(row, ours) for row in told["counterpart"]]
    matched = {pair for row in rows for pair in row.pairs}
    lines = [
        HEAD,
        "## Our options and theirs\n",
        *_table(
            ("Option", "Commands", "Theirs", "How"), (line for row in rows for line in row.cells)
        ),
        "\n## Options without a counterpart\n",
        "Neither Kafka's tools nor Kafka Backup have them. "
        f"{_listed((*CONNECTION, '--json'))} are in many commands, and are left out below.\n",
        *_table(("Command", "Options"), _alone(ours, matched)),
        "\n## Specifications",
    ]
    for specification in told["specification"]:
        lines += [f"\n### {specification['title']}\n"]
        cells = [_specified(row, ours) for row in specification["rows"]]
        lines += _table(("Theirs", "Here", "How"), cells)
    lines += ["\n## Keys of Kafka Backup\n", *_table(("Key", "Connector", "Here"), _keys())]
    return "\n".join(lines) + "\n"


@dataclass(frozen=True, slots=True)
class _Row:
    cells: list[tuple[str, str, str, str]]
    pairs: frozenset[tuple[str, str]]
    """Command and first name of each option that has the counterpart."""


def _counterpart(row: Mapping[str, Any], ours: Sequence[OptionNames]) -> _Row:
    option, only = row["option"], row.get("commands")
    found = [
        names for names in ours if option in names.every and (only is None or names.command in only)
    ]
    if not found or (only is not None and len(found) < len(only)):
        raise Mistake(f"{option} is not an option of {only or 'any command'}")
    where = ", ".join(f"`{names.command}`" for names in found)
    if len(found) > 6:
        where = f"{len(found)} commands"
    cells = [
        (f"`{option}`", where, _shown(their), _how(their, found, row.get("because")))
        for their in row["theirs"]
    ]
    return _Row(cells, frozenset((names.command, names.shown[0]) for names in found))


def _how(their: str, found: Sequence[OptionNames], because: str | None) -> str:
    name = their.partition(": ")[2]
    if because is not None:
        return f"different: {because}"
    if all(name in names.every for names in found):
        return "same name" if all(name in names.shown for names in found) else "older name"
    taken = {key.name: key.option for key in KEYS if key.option}
    if taken.get(name) in {spelled for names in found for spelled in names.every}:
        return "read from `--connector-config`"
    if name in TAKEN:
        return "read from `--config-file`"
    raise Mistake(f"{their}: neither same nor older nor read from a file: say why, in `because`")


def _shown(their: str) -> str:
    tool, _, name = their.partition(": ")
    is_name = name.startswith("-") or tool in ("connector", "ksql-server.properties")
    return f"{tool}: `{name}`" if is_name else f"{tool}: {name}"


def _alone(ours: Sequence[OptionNames], matched: set[tuple[str, str]]) -> Iterator[tuple[str, str]]:
    by_command: dict[str, list[str]] = {}
    for names in ours:
        first = names.shown[0]
        if (names.command, first) not in matched and first not in EVERYWHERE:
            by_command.setdefault(names.command, []).append(first)
    for command, firsts in by_command.items():
        yield f"`{command or 'breakglass'}`", _listed(firsts)


def _listed(names: Any) -> str:
    return ", ".join(f"`{name}`" for name in names)


def _specified(row: Mapping[str, str], ours: Sequence[OptionNames]) -> tuple[str, str, str]:
    text = row.get("done") or row["different"]
    known = {(names.command, name) for names in ours for name in names.every}
    for command, option in OPTION.findall(text):
        if (command, option) not in known:
            raise Mistake(f"{row['theirs']}: {command} has no {option}")
    for command in COMMAND.findall(OPTION.sub("", text)):
        if command not in _paths() and not command.startswith("kafka-"):
            raise Mistake(f"{row['theirs']}: there is no command {command}")
    return f"`{row['theirs']}`", "done" if "done" in row else "different", text


def _keys() -> Iterator[tuple[str, str, str]]:
    for key in KEYS:
        kind = "both" if key.kind is None else str(key.kind)
        if key.option:
            here = f"`{key.option}`"
        elif key.must_be:
            value = "empty" if key.must_be == "-" else key.must_be
            here = f"must be {value}: {key.because}"
        else:
            here = f"no effect: {key.because}"
        yield f"`{key.name}`", kind, here
    yield "any other", "both", "no effect, and said so"


def _table(titles: tuple[str, ...], rows: Any) -> Iterator[str]:
    yield f"| {' | '.join(titles)} |"
    yield f"|{'---|' * len(titles)}"
    for row in rows:
        yield f"| {' | '.join(cell.replace('|', chr(92) + '|') for cell in row)} |"


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare; returns the exit code."""
    try:
        text = page()
    except Mistake as mistake:
        print(f"{NAMES.name}: {mistake}")
        return 1
    if "--check" in arguments:
        current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == text
        if not current:
            print("docs/options.md is not what the commands are; run `make docs`.")
        return not current
    PAGE.write_text(text, encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
