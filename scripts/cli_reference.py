"""Write `docs/cli.md` and `docs/cli/` from the commands' own help, or `--check` them."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from typer.core import TyperGroup
from typer.main import get_command

from breakglass.console.cli import app
from breakglass.console.commands import COMMANDS, Deferred
from breakglass.console.options import connection_help

if TYPE_CHECKING:
    from typer._click import Command, Context

DOCS = Path(__file__).resolve().parent.parent / "docs"
NOTE = "Written by `make docs` from the commands' own help; do not edit.\n"
WIDTH = 88
HEAD = """# Commands

Written by `make docs` from the commands' own help; do not edit.

Every command keeps to this: data on stdout, messages on stderr, and an exit code of 0 done, 1
failed or partly failed, 2 usage, 3 refused (nothing was changed), 4 outcome unknown, 130
interrupted.

One word stands for one thing in every command:

- `--store`: a place of backups, a folder or `s3://BUCKET/PREFIX`. The console takes several:
  `--store URL --store checkpoint:URL --store metastore:DIR`.
- `--source`: what records are read from, in the words of `diff`, such as `log:DIR`. The two sides
  of `diff` are sources as well.
- `--from`, `--to`: offsets, the first and the one to stop before.
- `--topics`: `A,B`, or repeated. Kafka's `--topic` with `--partition` stays in `leader-election`.
- `--key`: where the key of encrypted backups is, `FILE` or `env:NAME`.
- `--out`: a new file or folder that the command makes.
- `--progress`: the folder in which a restore keeps its progress, and its old and new offsets.
- `--write`: allows the command to change a cluster, or to delete from a store or change files in
  it. What changes a cluster or deletes asks for consent as well. Labs are for breaking and need
  neither. `--dry-run` overrides it in every command; commands that list `--dry-run` print what they
  would do.
- `--json`: what the command reports, as JSON on stdout.

Durations are written `30d`, `12h`, `90m`, `45s` or `500ms`, sizes `10GB`, `512MiB` or `4096`, and
rates `20MB/s` or `unlimited`.
The KIP's `--recovery-duration-ms` is in milliseconds, as the KIP has it.
Names that options had before, and names of Kafka's own tools, still work and are not listed here.
"""


def commands() -> Iterator[Context]:
    """Yield a context of every command, groups before their members, as the list has them."""
    yield from _with_members(_context(get_command(app), "breakglass", None))


def _with_members(context: Context) -> Iterator[Context]:
    yield context
    if isinstance(context.command, TyperGroup):
        for name, member in context.command.commands.items():
            real = member.load() if isinstance(member, Deferred) else member
            if not real.hidden:
                yield from _with_members(_context(real, name, context))


def _context(command: Command, name: str, parent: Context | None) -> Context:
    settings = {"terminal_width": WIDTH, "max_content_width": WIDTH, "resilient_parsing": True}
    return command.make_context(name, [], parent, **settings)


def pages() -> dict[str, str]:
    """The text of each page below ``docs``: the list of commands, then a page for each section."""
    program, *found = commands()
    texts: dict[str, list[str]] = {}
    sections = {entry.name: entry.section or COMMANDS[1].section for entry in COMMANDS}
    for context in found:
        section = sections[context.command_path.split()[1]]
        texts.setdefault(section, []).append(_told(context))
    listed = "".join(
        f"- [{section}](cli/{section.lower()}.md): {_names(section)}\n" for section in texts
    )
    index = f"{HEAD}\n{listed}{_told(program)}\n## Connection\n{_fenced(connection_help(program))}"
    return {
        "cli.md": index,
        **{
            f"cli/{section.lower()}.md": f"# Commands: {section.lower()}\n\n{NOTE}{''.join(parts)}"
            for section, parts in texts.items()
        },
    }


def _names(section: str) -> str:
    return ", ".join(f"`{entry.name}`" for entry in COMMANDS if entry.section == section)


def _told(context: Context) -> str:
    return f"\n## {context.command_path}\n{_fenced(context.get_help())}"


def _fenced(text: str) -> str:
    return f"\n```text\n{text.rstrip()}\n```\n"


def main(arguments: list[str]) -> int:
    """Write the pages, or with ``--check`` compare; returns the exit code."""
    wanted = pages()
    there = {str(path.relative_to(DOCS)) for path in (DOCS / "cli").glob("*.md")} | {"cli.md"}
    stale = [
        name
        for name, text in wanted.items()
        if not (DOCS / name).exists() or (DOCS / name).read_text(encoding="utf-8") != text
    ]
    stale += sorted(there - wanted.keys())
    if "--check" in arguments:
        if stale:
            print(f"docs/{stale[0]} is not what the commands' help says; run `make docs`.")
        return int(bool(stale))
    (DOCS / "cli").mkdir(exist_ok=True)
    for name in stale:
        if name in wanted:
            (DOCS / name).write_text(wanted[name], encoding="utf-8")
        else:
            (DOCS / name).unlink()
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
