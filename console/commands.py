"""The commands of `breakglass`, listed without importing one of them.

``breakglass --help`` has to answer in 0.3 s, so the table below has each command's section, name
and line in the list; its module is imported when the command is asked for.
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
    summary: str
    module: str = ""
    """Where its `app` is, made by `new_app`; empty: in the module of its name."""

    @property
    def path(self) -> str:
        module = self.module or f"console.{self.name.replace('-', '_')}"
        return f"breakglass.{module}"


CONSOLE = "console"
"""The command that `breakglass` alone runs."""
_SECTIONS: dict[str, tuple[tuple[str, ...], ...]] = {
    "Incident": (
        (CONSOLE, "Open the console (as `breakglass` alone does)."),
        ("serve", "Show a read-only dashboard in a browser."),
        ("exporter", "Export metrics for Prometheus."),
        ("triage", "Start here: what is offline, what is lost, what to do."),
        ("capture", "Save what is known of an incident in one file."),
        ("open", "Open the console on such a file.", "console.open_bundle"),
        ("plan", "Make, read, edit, check and compare recovery plans."),
        ("hold", "Keep the controller from electing by order during triage."),
        ("recover", "Hold the elections of a reviewed plan: the usual way."),
        ("unclean-recovery", "Elect the best replicas without a plan (KIP-1275)."),
        ("leader-election", "Hold preferred, unclean or designated elections."),
        ("rescue", "Save records that elections will cut off; elect nobody."),
        ("groups", "Reset groups that committed past the end of a log."),
        ("return", "Check whether a dead broker is safe to start.", "console.returning"),
        ("quorum", "Find the copy of the metadata that loses least, without controllers."),
        ("internal-topics", "Show what internal topics lose by an election, key by key."),
        ("transactions", "List transactions that lost their markers, and end them."),
        ("doctor", "Check what an incident needs: this machine, connections, ACLs."),
        ("journal", "Show what was done from here, by whom, how it ended."),
    ),
    "Backup": (
        ("backup", "Back up, verify, restore and prune topics."),
        ("diff", "Compare backups, topics, replicas and log folders by record."),
    ),
    "Checkpoint": (
        ("checkpoint", "Take and restore consistent checkpoints of topics and groups."),
    ),
    "Metastore": (("metastore", "Back up, verify and restore the command topic of ksqlDB."),),
    "Lab": (
        ("demo", "Break a real cluster on loopback and recover it."),
        ("drill", "Recover a random incident on a lab against the clock, and see the score."),
        ("lab", "Run real Kafka brokers on this machine, to break and to practise on."),
    ),
}
COMMANDS = tuple(CommandEntry(section, *row) for section, rows in _SECTIONS.items() for row in rows)


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
        return get_command(import_module(self.entry.path).app)

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
