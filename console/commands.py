"""The commands of `breakglass`, listed without importing one of them.

``breakglass --help`` has to answer in 0.3 s, so the table below has each command's section, name,
module and line in the list; the module is imported when the command is asked for.
A command is added by one line here and `make docs`.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeVar

import typer
from typer.core import TyperCommand
from typer.main import get_command

from breakglass.console.help import HelpedCommand, HelpedGroup
from breakglass.console.option_values import spread

if TYPE_CHECKING:
    from typer._click import Command, Context
    from typer._click.shell_completion import CompletionItem

Run = TypeVar("Run", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One line of the list of commands."""

    section: str
    name: str
    target: str
    """``module:attribute`` of a Typer app made by `new_app`."""
    summary: str


CONSOLE = "console"
"""The command that `breakglass` alone runs."""

INCIDENT = "Incident"
BACKUP = "Backup"
CHECKPOINT = "Checkpoint"
METASTORE = "Metastore"
LAB = "Lab"

COMMANDS: tuple[CommandEntry, ...] = (
    CommandEntry(
        INCIDENT, CONSOLE, "console.console:app", "Open the console (as `breakglass` alone does)."
    ),
    CommandEntry(
        INCIDENT, "serve", "console.serve:app", "Show a read-only dashboard in a browser."
    ),
    CommandEntry(INCIDENT, "exporter", "console.exporter:app", "Export metrics for Prometheus."),
    CommandEntry(
        INCIDENT,
        "triage",
        "console.triage:app",
        "Start here: what is offline, what is lost, what to do.",
    ),
    CommandEntry(
        INCIDENT, "capture", "console.capture:app", "Save what is known of an incident in one file."
    ),
    CommandEntry(INCIDENT, "open", "console.open_bundle:app", "Open the console on such a file."),
    CommandEntry(
        INCIDENT, "plan", "console.plan:app", "Make, read, edit, check and compare recovery plans."
    ),
    CommandEntry(
        INCIDENT,
        "hold",
        "console.hold:app",
        "Keep the controller from electing by order during triage.",
    ),
    CommandEntry(
        INCIDENT,
        "recover",
        "console.recover:app",
        "Hold the elections of a reviewed plan: the usual way.",
    ),
    CommandEntry(
        INCIDENT,
        "unclean-recovery",
        "console.unclean_recovery:app",
        "Elect the best replicas without a plan (KIP-1275).",
    ),
    CommandEntry(
        INCIDENT,
        "leader-election",
        "console.leader_election:app",
        "Hold preferred, unclean or designated elections.",
    ),
    CommandEntry(
        INCIDENT,
        "rescue",
        "console.rescue:app",
        "Save records that elections will cut off; elect nobody.",
    ),
    CommandEntry(
        INCIDENT,
        "groups",
        "console.groups:app",
        "Reset groups that committed past the end of a log.",
    ),
    CommandEntry(
        INCIDENT, "return", "console.returning:app", "Check whether a dead broker is safe to start."
    ),
    CommandEntry(
        INCIDENT,
        "internal-topics",
        "console.internal_topics:app",
        "Show what internal topics lose by an election, key by key.",
    ),
    CommandEntry(
        INCIDENT,
        "transactions",
        "console.transactions:app",
        "List transactions that lost their markers, and end them.",
    ),
    CommandEntry(
        INCIDENT,
        "doctor",
        "console.doctor:app",
        "Check what an incident needs: this machine, connections, ACLs.",
    ),
    CommandEntry(
        INCIDENT,
        "journal",
        "console.journal:app",
        "Show what was done from here, by whom, how it ended.",
    ),
    CommandEntry(
        BACKUP, "backup", "console.backup:app", "Back up, verify, restore and prune topics."
    ),
    CommandEntry(
        BACKUP,
        "diff",
        "console.diff:app",
        "Compare backups, topics, replicas and log folders by record.",
    ),
    CommandEntry(
        CHECKPOINT,
        "checkpoint",
        "console.checkpoint:app",
        "Take and restore consistent checkpoints of topics and groups.",
    ),
    CommandEntry(
        METASTORE,
        "metastore",
        "console.metastore:app",
        "Back up, verify and restore the command topic of ksqlDB.",
    ),
    CommandEntry(
        LAB, "demo", "console.demo:app", "Break a real cluster on loopback and recover it."
    ),
    CommandEntry(
        LAB,
        "drill",
        "console.drill:app",
        "Recover a random incident on a lab against the clock, and see the score.",
    ),
    CommandEntry(
        LAB,
        "lab",
        "console.lab:app",
        "Run real Kafka brokers on this machine, to break and to practise on.",
    ),
)


class CommandApp(typer.Typer):
    """A Typer app whose commands have the help that all share."""

    def command(self, name: str | None = None, **settings: Any) -> Callable[[Run], Run]:
        return super().command(name, **{"cls": HelpedCommand, **settings})


def new_app(summary: str | None = None) -> CommandApp:
    """Return an empty Typer app with the settings that every command shares.

    Plain help (no markup, so nothing an operator sees is interpreted, and rich is not imported),
    and no error handling of Typer's own: `console.exits` does that, in one place.
    """
    return CommandApp(
        cls=HelpedGroup,
        help=summary,
        add_completion=False,
        rich_markup_mode=None,
        pretty_exceptions_enable=False,
        no_args_is_help=True,
    )


class Deferred(TyperCommand):
    """Stands for a command in the list; becomes the real one when it is run or completed."""

    def __init__(self, entry: CommandEntry) -> None:
        super().__init__(
            entry.name, help=entry.summary, rich_markup_mode=None, rich_help_panel=entry.section
        )
        self.entry = entry

    def load(self) -> Command:
        module, _, attribute = self.entry.target.partition(":")
        return get_command(getattr(import_module(f"breakglass.{module}"), attribute))

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """Parse *args* as the real command does; the context it returns runs that one."""
        return self.load().make_context(info_name, args, parent, **extra)


class CommandGroup(HelpedGroup):
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
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-"):
            with self.commands[CONSOLE].make_context(
                CONSOLE, [], parent=ctx, resilient_parsing=True
            ) as console:
                found += console.command.shell_complete(console, incomplete)
        return list({item.value: item for item in found}.values())

    def own_options(self, ctx: Context) -> frozenset[str]:
        return frozenset(name for param in self.get_params(ctx) for name in param.opts)
