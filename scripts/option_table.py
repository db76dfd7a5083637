"""Write ``docs/options.md``: our options, and their counterparts in Kafka, Kafka Backup and ksqlDB.

The names of our options come from the commands, the keys of a connector from their reader, and the
rest from ``option_names.toml``. ``--check`` says whether the page is current. The script fails on a
row with an option that no command has, or with a difference that has no reason.
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

from breakglass.services.topic_backup.connector import KEYS
from scripts.cli_reference import commands

NAMES = Path(__file__).with_name("option_names.toml")
PAGE = Path(__file__).resolve().parent.parent / "docs" / "options.md"
HEAD = """# Options and their counterparts

Which option of Breakglass does what an option of Kafka's tools, of Kafka Backup or of ksqlDB does.
[The commands](cli.md) list all options. `make docs` writes this page; do not edit it.

"Same name" and "older name" mean that you can type the other tool's name.
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
    lines = [
        HEAD,
        "## Kafka's tools\n",
        *_table(
            ("Option", "Commands", "Counterpart", "How"),
            (cells for row in told["counterpart"] for cells in _counterpart(row, ours)),
        ),
        "\n## Specifications",
    ]
    for specification in told["specification"]:
        lines += [f"\n### {specification['title']}\n"]
        cells = [_specified(row, ours) for row in specification["rows"]]
        lines += _table(("There", "Here", "How"), cells)
    lines += ["\n## Keys of Kafka Backup\n", *_table(("Keys", "Connector", "Here"), _keys())]
    return "\n".join(lines) + "\n"


def _counterpart(row: Mapping[str, Any], ours: Sequence[OptionNames]) -> Iterator[tuple[str, ...]]:
    option, only = row["option"], row.get("commands")
    found = [
        names for names in ours if option in names.every and (only is None or names.command in only)
    ]
    if not found or (only is not None and len(found) < len(only)):
        raise Mistake(f"{option} is not an option of {only or 'any command'}")
    where = ", ".join(f"`{names.command}`" for names in found)
    if len(found) > 6:
        where = f"{len(found)} commands"
    alike: dict[str, list[str]] = {}
    for their in row["theirs"]:
        alike.setdefault(_how(their, found, row.get("because")), []).append(_shown(their))
    for how, theirs in alike.items():
        yield f"`{option}`", where, ", ".join(theirs), how


def _how(their: str, found: Sequence[OptionNames], because: str | None) -> str:
    name = their.partition(": ")[2]
    if because is not None:
        return f"different: {because}"
    if all(name in names.every for names in found):
        return "same name" if all(name in names.shown for names in found) else "older name"
    raise Mistake(f"{their}: neither same nor older: say why, in `because`")


def _shown(their: str) -> str:
    tool, _, name = their.partition(": ")
    return f"{tool}: `{name}`"


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
    alike: dict[tuple[str, str], list[str]] = {}
    for key in KEYS:
        kind = "both" if key.kind is None else str(key.kind)
        if key.option:
            here = f"`{key.option}`"
        elif key.must_be:
            value = "empty" if key.must_be == "-" else key.must_be
            here = f"must be {value}: {key.because}"
        else:
            here = f"no effect: {key.because}"
        alike.setdefault((kind, here), []).append(f"`{key.name}`")
    for (kind, here), names in alike.items():
        yield ", ".join(names), kind, here
    yield "any other", "both", "no effect; named on stderr"


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
