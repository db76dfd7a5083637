"""Write ``docs/cli.md`` from the commands' own help; ``--check`` says whether it is current."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

from typer.core import TyperGroup
from typer.main import get_command

from breakglass.console.cli import app
from breakglass.console.commands import Deferred

if TYPE_CHECKING:
    from typer._click import Command, Context

PAGE = Path(__file__).resolve().parent.parent / "docs" / "cli.md"
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
  of `diff` are sources, too.
- `--from`, `--to`: offsets, the first and the one to stop before.
- `--topics`: `A,B`, or repeated. Kafka's `--topic` with `--partition` stays in `leader-election`.
- `--key`: where the key of encrypted backups is, `FILE` or `env:NAME`.
- `--out`: a new file or folder that the command makes.
- `--progress`: the folder in which a restore keeps its progress, and its old and new offsets.
- `--write`: allows the command to change a cluster, or to delete from a store or change files in
  it. What changes a cluster or deletes asks for consent as well. Labs are for breaking and need
  neither.
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


def page() -> str:
    """Return the text of the page."""
    sections = (
        f"\n## {context.command_path}\n\n```text\n{context.get_help().rstrip()}\n```\n"
        for context in commands()
    )
    return HEAD + "".join(sections)


def main(arguments: list[str]) -> int:
    """Write the page, or with ``--check`` compare; returns the exit code."""
    current = PAGE.exists() and PAGE.read_text(encoding="utf-8") == page()
    if "--check" in arguments:
        if not current:
            print("docs/cli.md is not what the commands' help says; run `make docs`.")
        return not current
    PAGE.write_text(page(), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
