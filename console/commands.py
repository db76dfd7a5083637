"""The commands of `breakglass`, listed without importing one of them.

``breakglass --help`` has to answer in 0.3 s, so the table below holds each command's name, where
its Typer app is, and its line in the list; the app is imported when the command is asked for.
A command is added by one line here and `make docs`.
"""

from __future__ import annotations

from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_command

from breakglass.console.option_values import spread

if TYPE_CHECKING:
    from typer._click import Command, Context
    from typer._click.shell_completion import CompletionItem


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One line of the list of commands."""

    name: str
    target: str
    """``module:attribute`` of a Typer app made by `new_app`."""
    summary: str


CONSOLE = "console"
"""The command that `breakglass` alone runs."""

COMMANDS: tuple[CommandEntry, ...] = (
    CommandEntry(CONSOLE, "console.console:app", "Open the console (as `breakglass` alone does)."),
    CommandEntry("serve", "console.serve:app", "Show the read-only dashboard in a browser."),
    CommandEntry("demo", "console.demo:app", "Break a real cluster on loopback and recover it."),
    CommandEntry(
        "triage", "console.triage:app", "What is offline, what is lost, what to do first."
    ),
    CommandEntry(
        "unclean-recovery",
        "console.unclean_recovery:app",
        "Recover offline partitions by designated elections (KIP-1275).",
    ),
    CommandEntry("plan", "console.plan:app", "Make, read, edit, check and compare recovery plans."),
    CommandEntry("rescue", "console.rescue:app", "Save the records that a plan will cut off."),
    CommandEntry("recover", "console.recover:app", "Hold the elections of a plan, under guard."),
    CommandEntry(
        "leader-election",
        "console.leader_election:app",
        "Hold preferred, unclean or designated elections.",
    ),
    CommandEntry(
        "journal", "console.journal:app", "What was done from here, by whom, how it ended."
    ),
    CommandEntry(
        "groups", "console.groups:app", "Consumer groups that committed past a recovered end."
    ),
    CommandEntry(
        "diff", "console.diff:app", "Compare backups, topics, replicas, log folders by record."
    ),
    CommandEntry("backup", "console.backup:app", "Back up, verify, restore and prune topics."),
    CommandEntry(
        "checkpoint",
        "console.checkpoint:app",
        "Take and restore consistent checkpoints of topics and groups.",
    ),
    CommandEntry(
        "metastore",
        "console.metastore:app",
        "Back up, verify and restore the command topic of ksqlDB.",
    ),
    CommandEntry(
        "lab",
        "console.lab:app",
        "Real Kafka brokers on this machine, to break and to practise on.",
    ),
)


def new_app(summary: str | None = None) -> typer.Typer:
    """Return an empty Typer app with the settings that every command shares.

    Plain help (no markup, so nothing an operator sees is interpreted, and rich is not imported),
    and no error handling of Typer's own: `console.exits` does that, in one place.
    """
    return typer.Typer(
        help=summary,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )


class Deferred(TyperCommand):
    """Stands for a command in the list; becomes the real one when it is run or completed."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(entry.name, help=entry.summary, rich_markup_mode=None)
        self.entry = entry

    def load(self) -> Command:
        """Import the command."""
        module, _, attribute = self.entry.target.partition(":")
        return get_command(getattr(import_module(f"breakglass.{module}"), attribute))

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """Parse *args* as the real command does; the context it returns runs that one."""
        return self.load().make_context(info_name, args, parent, **extra)


class CommandGroup(TyperGroup):
    """The group whose members are those of the table."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(**settings)
        for entry in COMMANDS:
            self.add_command(Deferred(entry))

    def parse_args(self, ctx: Context, args: list[str]) -> list[str]:
        """Take a line that names no command as one for the console: `breakglass --write`.

        What is completed may still become the name of a command.
        """
        if ctx.resilient_parsing and not args:
            return super().parse_args(ctx, args)
        if not args or (args[0].startswith("-") and args[0] not in self.own_options(ctx)):
            args = [CONSOLE, *args]
        return super().parse_args(ctx, spread(args, "--gone"))

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        """Complete the name of a command, or an option: those of the console are options here."""
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            with self.commands[CONSOLE].make_context(
                CONSOLE, [], parent=ctx, resilient_parsing=True
            ) as console:
                found += console.command.shell_complete(console, incomplete)
        return list({one.value: one for one in found}.values())

    def own_options(self, ctx: Context) -> frozenset[str]:
        """The options of `breakglass` itself."""
        return frozenset(name for one in self.get_params(ctx) for name in one.opts)
