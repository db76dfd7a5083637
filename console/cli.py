"""The program `breakglass`: its options, its commands, its way out.

Commands are listed without importing one of them: ``breakglass --help`` has to answer in 0.3 s, so
the table below has each command's section, name and line in the list; its module is imported when
the command is asked for. A command is added by one line here and `make docs`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer
from typer.core import TyperCommand
from typer.main import get_command

from breakglass import __version__
from breakglass.console.exits import run_app
from breakglass.console.help import HelpedCommand, HelpedGroup
from breakglass.console.option_values import spread
from breakglass.services.errors import UsageError

if TYPE_CHECKING:
    from typer._click import Command, Context
    from typer._click.shell_completion import CompletionItem

Run = TypeVar("Run", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class CommandEntry:
    """One line of the list of commands."""

    section: str
    """Empty: the command is not listed."""
    name: str
    summary: str
    module: str = ""
    """Where its `app` is, made by `new_app`, or ``module:app``; empty: the module of its name."""
    members: tuple[CommandEntry, ...] = ()
    """Commands of this one whose modules are imported when they are asked for."""
    default: str = ""
    """The member that runs when none is named."""

    @property
    def path(self) -> str:
        module = self.module or f"console.{self.name.replace('-', '_')}"
        return f"breakglass.{module.partition(':')[0]}"

    def load(self) -> Command:
        if self.members and not self.module:
            return CommandGroup(
                self.members,
                self.default,
                name=self.name,
                help=self.summary,
                no_args_is_help=not self.default,
                rich_markup_mode=None,
            )
        app = getattr(import_module(self.path), self.module.partition(":")[2] or "app")
        command = get_command(app)
        if isinstance(command, HelpedGroup):
            for member in self.members:
                command.add_command(Deferred(member))
        return command


CONSOLE = "console"
"""The command that `breakglass` alone runs."""
NOW, AFTERWARDS, PREPARE, WATCH, PRACTISE, COMPATIBILITY = (
    *("Now", "Afterwards", "Prepare", "Watch", "Practise", "Compatibility"),
)
AFTER = (
    CommandEntry("", "groups", "Reset groups that committed past the end of a log."),
    CommandEntry("", "transactions", "List transactions that lost their markers, and end them."),
    CommandEntry("", "internal-topics", "Show what an election costs internal topics, by key."),
    CommandEntry(
        *("", "add-replica", "Add replicas to partitions with too few in sync to read or write."),
        "console.recover:add_replica_app",
    ),
)
SERVE = (
    CommandEntry("", "dashboard", "Show a read-only dashboard in a browser.", "console.serve"),
    CommandEntry("", "metrics", "Export metrics for Prometheus.", "console.exporter"),
    CommandEntry(
        *("", "checkpoints", "Take and list checkpoints over HTTP."), "console.checkpoint:serve_app"
    ),
)
BUNDLE = (
    CommandEntry("", "capture", "Save what Breakglass knows about an incident in one file."),
    CommandEntry("", "open", "Open the console on such a file.", "console.open_bundle"),
)
LAB = (
    CommandEntry("", "demo", "Break a real cluster on loopback and recover it."),
    CommandEntry("", "drill", "Recover a random incident against the clock, and see the score."),
)
COMMANDS = (
    CommandEntry("", CONSOLE, "Open the console (as `breakglass` alone does)."),
    CommandEntry(NOW, "triage", "Start here: what is offline, what is lost, what to do."),
    CommandEntry(NOW, "recover", "Elect the leaders of a plan; resume; turn unclean election off."),
    CommandEntry(
        NOW, "rescue", "Save records that an election or a returning broker would cut off."
    ),
    CommandEntry(
        *(NOW, "can-start", "Check whether it is safe to start a dead broker."), "console.returning"
    ),
    CommandEntry(NOW, "quorum", "See which controllers are missing; bring a cluster back."),
    CommandEntry(NOW, "plan", "Make, show, check, edit, approve and compare plans."),
    CommandEntry(AFTERWARDS, "report", "Account for every record of an incident."),
    CommandEntry(
        *(AFTERWARDS, "journal", "Show what was done from this machine, by whom, and how it ended.")
    ),
    CommandEntry(
        *(AFTERWARDS, "after", "Repair groups, transactions and replicas after an election."),
        members=AFTER,
    ),
    CommandEntry(PREPARE, "doctor", "Check this machine, the connection and ACLs."),
    CommandEntry(PREPARE, "backup", "Back up, verify, restore and prune topics."),
    CommandEntry(PREPARE, "checkpoint", "Take and restore consistent checkpoints."),
    CommandEntry(
        *(PREPARE, "ksql", "Back up and restore the command topic of ksqlDB."), "console.metastore"
    ),
    CommandEntry(PREPARE, "diff", "Compare two backups, topics, replicas or log folders."),
    CommandEntry(
        *(WATCH, "serve", "Serve a dashboard, metrics or checkpoints."),
        members=SERVE,
        default="dashboard",
    ),
    CommandEntry(
        *(WATCH, "bundle", "Capture an incident in one file, and open such a file."), members=BUNDLE
    ),
    CommandEntry(
        *(PRACTISE, "lab", "Run real brokers on this machine: demo, drill, scenarios."),
        "console.lab",
        LAB,
    ),
    CommandEntry(COMPATIBILITY, "unclean-recovery", "KIP-1275's kafka-unclean-recovery."),
    CommandEntry(COMPATIBILITY, "leader-election", "KIP-1275's kafka-elect-leaders."),
)
ALIASES = {
    "capture": "bundle capture",
    "open": "bundle open",
    "exporter": "serve metrics",
    "hold": "recover freeze",
    "return": "can-start",
    "groups past-end": "after groups list",
    "groups": "after groups",
    "transactions": "after transactions",
    "internal-topics": "after internal-topics",
    "demo": "lab demo",
    "drill": "lab drill",
    "lab status": "lab list",
    "recover report": "report",
    "recover min-isr": "recover forget-leader",
    "recover add-replica": "after add-replica",
    "plan set": "plan edit",
    "plan exclude": "plan edit --words exclude",
    "plan prefer": "plan edit",
    "plan never": "plan edit --words never",
    "plan least-loss": "plan edit --least-loss",
    "journal observed": "journal list --observed",
    "journal timeline": "journal show --timeline",
    "backup status": "backup list",
    "backup reindex": "backup repair",
    "checkpoint status": "checkpoint show",
    "checkpoint delete": "checkpoint prune",
    "checkpoint retain": "checkpoint prune",
    "checkpoint serve": "serve checkpoints",
    "metastore list": "ksql show",
    "metastore history": "ksql show --history",
    "metastore lines": "ksql show --lines",
    "metastore validate": "ksql submit --dry-run",
    "metastore": "ksql",
    "version": "--version",
    "-V": "--version",
}
"""The words that commands had before, and those that they have now. They work and are not shown."""


TRIAGE = "`breakglass triage` lists what is offline, what is lost, and what to do"
ADDRESS = "name the cluster by --bootstrap-server: `breakglass triage --bootstrap-server HOST:PORT`"
READS = (
    "`breakglass backup cat URL/TOPIC/PARTITION` prints records of a backup, and `breakglass diff` "
)
FIRST_GUESSES = {
    "restore": "topics: `breakglass backup restore`; checkpoints: `breakglass checkpoint restore`; "
    "ksqlDB's command topic: `breakglass ksql restore`",
    "verify": "topics: `breakglass backup verify`; checkpoints: `breakglass checkpoint verify`; "
    "ksqlDB's command topic: `breakglass ksql verify`",
    "elect": "`breakglass recover` makes a plan, shows what it loses, and asks before it elects",
    "fix": "`breakglass recover` makes a plan, shows what it loses, and asks before it elects",
    "list": f"{TRIAGE}; backups, checkpoints and journals have a `list` of their own",
    **dict.fromkeys(("status", "offline", "why", "show", "describe"), TRIAGE),
    **dict.fromkeys(("--list", "--describe", "--topic", "-L"), TRIAGE),
    **dict.fromkeys(("--unavailable-partitions", "--under-replicated-partitions"), TRIAGE),
    **dict.fromkeys(("--zookeeper", "--broker-list", "-b"), ADDRESS),
    **dict.fromkeys(("-C", "-P", "-Q", "-t"), f"{READS}compares two sources of them"),
    **dict.fromkeys(
        ("--election-type", "--all-topic-partitions"),
        "`breakglass leader-election` has the options of kafka-leader-election.sh",
    ),
}
"""What operators type first, also for kafka-topics.sh and kcat, and the command that it is here."""


def renamed(args: list[str]) -> list[str]:
    """*args* with the words of now in place of those of before."""
    for length in (2, 1):
        words = ALIASES.get(" ".join(args[:length]))
        if words is not None:
            return [*words.split(), *args[length:]]
    return args


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
            entry.name,
            help=entry.summary,
            rich_markup_mode=None,
            rich_help_panel=entry.section or None,
            hidden=entry.name == CONSOLE,
        )
        self.load = entry.load

    def make_context(
        self, info_name: str | None, args: list[str], parent: Context | None = None, **extra: Any
    ) -> Context:
        """Parse *args* as the real command does; the context it returns runs that one."""
        return self.load().make_context(info_name, args, parent, **extra)


class CommandGroup(HelpedGroup):
    """A group whose members are those of a table, and that may have one which runs unnamed."""

    def __init__(self, entries: Sequence[CommandEntry], default: str = "", **settings: Any) -> None:
        super().__init__(**settings)
        self.default = default
        for entry in entries:
            self.add_command(Deferred(entry))

    def rewritten(self, ctx: Context, args: list[str]) -> list[str]:
        """Take a line that names no command as one for the default: `breakglass --write`."""
        own = {name for param in self.get_params(ctx) for name in param.opts}
        unnamed = not args or (args[0].startswith("-") and args[0] not in own)
        return [self.default, *args] if unnamed and self.default else args

    def shell_complete(self, ctx: Context, incomplete: str) -> list[CompletionItem]:
        found = super().shell_complete(ctx, incomplete)
        if incomplete.startswith("-") and self.default:
            with self.commands[self.default].make_context(
                self.default, [], parent=ctx, resilient_parsing=True
            ) as default:
                found += default.command.shell_complete(default, incomplete)
        return list({item.value: item for item in found}.values())


class Program(CommandGroup):
    """The program itself: its table, and the words that its commands had before."""

    def __init__(self, **settings: Any) -> None:
        super().__init__(COMMANDS, CONSOLE, **settings)

    def rewritten(self, ctx: Context, args: list[str]) -> list[str]:
        # Options without a command may be those of another tool, wherever they stand.
        guesses = args if args and args[0].startswith("-") else args[:1]
        for word in filter(FIRST_GUESSES.get, guesses):
            if not ctx.resilient_parsing:
                raise UsageError(f"{word}: {FIRST_GUESSES[word]}.")
        return super().rewritten(ctx, spread(renamed(args), "--gone"))


app = typer.Typer(
    cls=Program,
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    no_args_is_help=True,
    context_settings={"help_option_names": ["-h", "--help"]},
)


def _print_version(asked: bool) -> None:
    if asked:
        print(f"breakglass {__version__}")
        raise typer.Exit


@app.callback()
def breakglass(
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version and exit."
        ),
    ] = False,
) -> None:
    """Bring offline Kafka partitions back, with the least possible loss.

    What is lost? Which replica loses least? How do you put the rest back? `triage`, `recover` and
    `backup restore` answer. Without a command the console opens; its options are those of
    `breakglass console`. No breakglass command changes the cluster without --write and your
    consent; --dry-run overrides --write everywhere. `breakglass help COMMAND` explains a command,
    and `breakglass help connection` how to name the cluster.
    """


@app.command("help", hidden=True)
def print_help(
    context: typer.Context,
    words: Annotated[
        list[str] | None,
        typer.Argument(metavar="COMMAND|connection", help="What to explain."),
    ] = None,
) -> None:
    """Print the help of a command, or how to name the cluster."""
    if words == ["connection"]:
        from breakglass.console.options import connection_help

        print(connection_help(context))
        return
    assert context.parent is not None
    context.parent.command.main([*(words or ()), "--help"], prog_name="breakglass")


def main() -> int:
    """Run the command line; returns the exit code (see `console.exits`)."""
    return run_app(app, "breakglass")
