"""The options that commands share: one word for one thing, written one way.

==================== =============================================================
--store              a place of backups that is read, written or pruned
--source             what records are read from, written as for `diff` (log:DIR ...)
--from, --to         offsets, and nothing else
--topics             names with commas between, repeatable
--key                where the key of encrypted backups is
--out                a new file or folder that the command makes
--progress           where a restore keeps how far it is
--max-rate, ages     written as 20MB/s, 30d (`services.words.amounts`)
--write              allows a change; --consent agrees to one
==================== =============================================================

A parameter of a command can be a group of options: see `with_groups`.
The names that follow the first name of an option are older ones (see `console.help`).
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from contextlib import AbstractContextManager
from dataclasses import dataclass, is_dataclass
from pathlib import Path
from types import FunctionType
from typing import TYPE_CHECKING, Annotated, Any, get_args, get_type_hints

import typer
from typer.main import get_command

from breakglass.console import completion
from breakglass.console.help import CONNECTION, HelpedCommand
from breakglass.console.option_values import Consent, amount, broker_ids, names_in
from breakglass.console.output import LogFormat, log_as, say, waits_said
from breakglass.console.wiring import PLACE, Connection
from breakglass.services.errors import UsageError
from breakglass.services.recovery.guarded.rescue_choice import RescueChoice
from breakglass.services.session import Effort
from breakglass.services.words.figures import duration_ms, rate_bytes, size_bytes

if TYPE_CHECKING:
    from typer._click import Context

    from breakglass.services.monitoring.events import Events

Gone = Annotated[
    list[str] | None,
    typer.Option(
        "--gone",
        metavar="ID...",
        help="Brokers whose disks are lost; Breakglass does not wait for them (4 7, or 4,7, or "
        "repeated).",
    ),
]
"""Read it with `option_values.broker_ids`."""

Theme = Annotated[
    str | None,
    typer.Option("--theme", metavar="NAME", help="Colour theme.", autocompletion=completion.themes),
]

Host = Annotated[
    str,
    typer.Option(
        "--host",
        metavar="ADDRESS",
        help="Address to listen on; if others can reach it, TLS is needed.",
    ),
]
ListenPort = Annotated[
    int, typer.Option("--port", min=0, max=65535, help="Port to listen on; 0 for any free port.")
]
TlsCertificate = Annotated[
    Path | None,
    typer.Option(
        "--tls-certificate", metavar="FILE", help="Certificate chain of the server, in PEM."
    ),
]
TlsKey = Annotated[
    Path | None,
    typer.Option("--tls-key", metavar="FILE", help="Private key of the certificate, in PEM."),
]
TokenFile = Annotated[
    Path | None,
    typer.Option(
        "--token-file", metavar="FILE", help="Token of the clients, readable by you alone."
    ),
]
Duration = Annotated[
    int,
    typer.Option(
        "--recovery-duration-ms", min=1, help="Time for brokers to answer, in milliseconds."
    ),
]
DURATION_MS = 30_000
"""Its default, KIP-1275's."""

VerifyContents = Annotated[
    Effort,
    typer.Option(
        "--verify-contents",
        case_sensitive=False,
        help="How much of a replica's log is read and checked before the replica is proposed.",
    ),
]
Journals = Annotated[
    list[Path] | None,
    typer.Option(
        "--journals",
        metavar="PATH",
        help="A colleague's journal, or a folder of journals, to use as evidence as well "
        "(repeatable; also BREAKGLASS_JOURNALS).",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
AsJsonLines = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SOURCE_HELP = "Log folder of a broker that is down (repeatable); under `after`, also a rescue."
SOURCE = typer.Option("--source", "--from", metavar="log:DIR|rescue:DIR", help=SOURCE_HELP)
Sources = Annotated[list[str] | None, SOURCE]
Write = Annotated[
    bool, typer.Option("--write", help="Allow changes; without it, nothing is changed.")
]
DryRun = Annotated[
    bool, typer.Option("--dry-run", help="Print what would be done, and change nothing.")
]

Topics = Annotated[
    list[str] | None,
    typer.Option(
        "--topics",
        "--topic",
        metavar="A,B",
        help="Names of topics (repeatable).",
        autocompletion=completion.topics,
    ),
]
"""Read it with `option_values.names_in`."""
PLAN_HELP = "A plan of `plan make`, or a file in Kafka's format."
PlanOption = Annotated[
    Path | None, typer.Option("--plan", metavar="PLAN", hidden=True, help=PLAN_HELP)
]
"""Of a group, which has a plan or a command as its argument."""
GivenPlan = Annotated[Path | None, typer.Argument(metavar="PLAN", help=PLAN_HELP)]
KafkaVersion = Annotated[
    str, typer.Option("--kafka-version", metavar="VERSION", help="Kafka release to run.")
]
KAFKA = "4.3.1"
Each = Annotated[bool, typer.Option("--each", help="Print a row for every partition.")]
ShowReplicas = Annotated[
    bool, typer.Option("--show-replica-info", help="Print what every replica holds.")
]
Phrases = Annotated[
    list[str] | None,
    typer.Option(
        "--consent",
        metavar="PHRASE",
        help="Phrase that consents to the change; without it, the command asks on a terminal, and "
        "elsewhere prints it and ends (repeatable).",
    ),
]
RescueStore = Annotated[
    Path | None,
    typer.Option(
        "--rescue-to",
        "--store",
        "--to",
        metavar="DIR",
        help="Folder for the rescued records (default: your state folder).",
    ),
]
BackupStore = Annotated[str, typer.Option("--store", "--from", "--to", metavar="URL", help=PLACE)]
KeyFrom = Annotated[
    str | None,
    typer.Option(
        "--key",
        "--encrypt-key",
        metavar="FILE|env:NAME",
        help="Key of an encrypted backup: a file, or an environment variable.",
    ),
]
"""Read it with `option_values.key_of`."""
Progress = Annotated[
    Path | None,
    typer.Option(
        "--progress",
        "--state",
        metavar="DIR",
        help="Folder of the restore's progress (default: your state folder).",
    ),
]
Master = Annotated[
    str,
    typer.Option("--master", metavar="URL", help="Where Spark runs.", show_default="this machine"),
]
OldDelete = Annotated[bool, typer.Option("--delete", hidden=True, help="Refused without --write.")]
"""What `--write` alone means by now."""


def duration(
    name: str, *older: str, example: str, help: str, bare: str = "", least_ms: int = 0, shown: str
) -> Any:
    """An option whose value is a duration, in milliseconds; *bare*: see `duration_ms`."""

    def read(text: str) -> int:
        found = duration_ms(text, bare=bare)
        if found < least_ms:
            raise ValueError(f"{text!r} is too short: {least_ms:,} ms is the least")
        return found

    return _amount(read, name, *older, example=example, help=help, shown=shown)


def size(name: str, *older: str, example: str, help: str, least: int = 0, shown: str = "") -> Any:
    """An option whose value is a size, in bytes."""

    def read(text: str) -> int:
        found = size_bytes(text)
        if found < least:
            raise ValueError(f"{text!r} is too small: {least:,} bytes is the least")
        return found

    return _amount(read, name, *older, example=example, help=help, shown=shown)


def rate(name: str, *older: str, help: str, shown: str) -> Any:
    """An option whose value is a rate, in bytes a second; 0 for `unlimited`."""
    return _amount(rate_bytes, name, *older, example="20MB/s", help=help, shown=shown)


def _amount(
    read: Callable[[str], Any], name: str, *older: str, example: str, help: str, shown: str
) -> Any:
    return typer.Option(
        name,
        *older,
        metavar=example,
        parser=amount(name, read),
        help=help,
        show_default=shown or False,
    )


def waits(shown: str, *, least_ms: int = 1) -> Any:
    """The one option for waits. Its older names are read by `console.help`."""
    return duration(
        "--within",
        example=shown,
        help="How long to wait for brokers, groups or servers.",
        least_ms=least_ms,
        shown=shown,
    )


Within = Annotated[int, waits("30s")]
WhileRunning = Annotated[
    bool, typer.Option("--while-running", help="Read a log folder even if its broker is running.")
]
OlderThan = Annotated[
    int | None,
    duration(
        "--older-than",
        example="30d",
        help="Select segments or checkpoints that are older than this.",
        shown="",
    ),
]
"""Milliseconds."""


def _brokers_gone(gone: Gone = None) -> tuple[int, ...]:
    return broker_ids(gone, "--gone")


def _topic_names(topics: Topics = None) -> tuple[str, ...]:
    return names_in(topics)


def _seconds(within: Within = DURATION_MS) -> float:
    return within / 1000


def bound_of(duration: float, contents: Effort) -> float | None:
    """The seconds within which all is read; None where the whole of logs is, however long."""
    return None if contents is Effort.FULL else duration


def _kip_seconds(recovery_duration_ms: Duration = DURATION_MS) -> float:
    return recovery_duration_ms / 1000


def _consent(consent: Phrases = None) -> Consent:
    return Consent(tuple(consent or ()))


def _rescue(
    without_rescue: Annotated[
        bool,
        typer.Option(
            "--without-rescue", help="Do not save the records that the elections cut off."
        ),
    ] = False,
    store: RescueStore = None,
) -> RescueChoice:
    return RescueChoice(without_rescue, store)


@dataclass(frozen=True, slots=True)
class EventOptions:
    """Who gets the events of a command that runs until a signal."""

    on_event: Annotated[
        list[str] | None,
        typer.Option(
            "--on-event",
            metavar="URL|COMMAND",
            help="Send each event as JSON: by POST to a URL, or to the standard input of a "
            "command (repeatable).",
        ),
    ] = None
    event_secret_file: Annotated[
        Path | None,
        typer.Option(
            "--event-secret-file",
            metavar="FILE",
            help="Secret that signs events for a URL (HMAC-SHA256), readable by you alone.",
        ),
    ] = None

    def sending(self, command: str, *, lasting: bool = True) -> AbstractContextManager[Events]:
        """What sends the events of *command*, which has to be *lasting*.

        Raises: UsageError, Refused.
        """
        from breakglass.services.monitoring.events import sending

        if self.on_event and not lasting:
            raise UsageError("--on-event is for a command that runs until a signal")
        return sending(command, self.on_event or (), self.event_secret_file, say)


NO_EVENTS = EventOptions()
GoneBrokers = Annotated[tuple[int, ...], _brokers_gone]
TopicNames = Annotated[tuple[str, ...], _topic_names]
Seconds = Annotated[float, _seconds]
"""That brokers have to answer."""
KipSeconds = Annotated[float, _kip_seconds]
"""The same, in the words of KIP-1275."""
SECONDS = DURATION_MS / 1000
GivenConsent = Annotated[Consent, _consent]
NO_CONSENT = Consent()
Rescue = Annotated[RescueChoice, _rescue]


def _connection(
    bootstrap_server: Annotated[
        str | None,
        typer.Option(
            "--bootstrap-server",
            metavar="HOST:PORT,...",
            help="Brokers to connect to first.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    command_config: Annotated[
        str | None,
        typer.Option(
            "--command-config",
            "--admin.config",
            metavar="FILE",
            help="Client properties with Kafka's own keys.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            "--profile",
            metavar="NAME",
            help="A profile from your config folder.",
            rich_help_panel=CONNECTION,
            autocompletion=completion.profiles,
        ),
    ] = None,
    broker_address: Annotated[
        list[str] | None,
        typer.Option(
            "--broker-address",
            metavar="ID=HOST:PORT",
            help="Address of a broker, in place of the advertised one (repeatable); @FILE has "
            "several.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    listener: Annotated[
        str | None,
        typer.Option(
            "--listener",
            metavar="NAME",
            help="The brokers' listener to use.",
            rich_help_panel=CONNECTION,
        ),
    ] = None,
    native_rpc: Annotated[
        str,
        typer.Option(
            "--native-rpc",
            metavar="auto|off|KEY",
            help="Whether to use KIP-1275's own requests.",
            rich_help_panel=CONNECTION,
            autocompletion=completion.native_rpc,
        ),
    ] = "auto",
    write: Write = False,
) -> Connection:
    from breakglass.services.connection.sources import ConnectionOptions

    options = ConnectionOptions(
        bootstrap_server, command_config, profile, tuple(broker_address or ()), listener
    )
    return Connection(options, native_rpc, write)


def connection_help(context: Context) -> str:
    """The options of a connection, and which of them wins."""
    app = typer.Typer(rich_markup_mode=None, add_completion=False)

    @app.command(cls=HelpedCommand, add_help_option=False)
    @connected
    def connection(_: Connection) -> None:
        """Name the cluster, and how to reach it, in any command that asks brokers.

        An option overrides its environment variable, and that overrides the profile:
        BREAKGLASS_BOOTSTRAP_SERVER, BREAKGLASS_COMMAND_CONFIG, BREAKGLASS_PROFILE,
        BREAKGLASS_BROKER_ADDRESS and BREAKGLASS_LISTENER. One broker that answers is enough: it
        names the others. `breakglass doctor` checks the connection, and what its user may do.
        """

    command = get_command(app)
    _usage, _, text = command.get_help(type(context)(command)).partition("\n\n")
    return text


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give *command* the connection options; it gets a Connection as its first argument."""
    return _with_options(command, writes=False)


def connected_for_writing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same with `--write`."""
    return _with_options(command, writes=True)


def with_log_format(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give a command that runs until a signal `--log-format`, and talk in that format."""
    option = typer.Option(
        "--log-format", help="How the command reports on stderr: sentences, or JSON lines."
    )
    chosen = inspect.Parameter(
        "log_format",
        inspect.Parameter.KEYWORD_ONLY,
        default=LogFormat.TEXT,
        annotation=Annotated[LogFormat, option],
    )

    def run(*, log_format: LogFormat, **arguments: Any) -> Any:
        log_as(log_format)
        return command(**arguments)

    return _signed(run, command, [*map(_keyword, _typed(command)), chosen])


def with_groups(command: Callable[..., Any]) -> Callable[..., Any]:
    """Let each parameter of *command* that is a group have the group's options in its place.

    A group is a dataclass whose fields are options, or an annotation with a function that takes
    options; groups may hold groups. The command gets the value that is made of them.
    """
    groups: dict[str, tuple[Callable[..., Any], list[inspect.Parameter]]] = {}
    params: list[inspect.Parameter] = []
    for param in _typed(command):
        made = [one for one in get_args(param.annotation) if isinstance(one, FunctionType)]
        make = made[0] if made else param.annotation
        if made or (is_dataclass(make) and make is not Connection):
            make = with_groups(make)
            groups[param.name] = make, _typed(make)
            params += groups[param.name][1]
        else:
            params.append(param)
    if not groups:
        return command

    def run(*given: Any, **arguments: Any) -> Any:
        for name, (make, options) in groups.items():
            arguments[name] = make(**{one.name: arguments.pop(one.name) for one in options})
        return command(*given, **arguments)

    return _signed(run, command, [params[0], *map(_keyword, params[1:])])


def _with_options(command: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
    command = with_groups(command)
    own = _typed(command)[1:]
    added = [param for param in _typed(_connection) if writes or param.name != "write"]

    def run(**arguments: Any) -> Any:
        given = {param.name: arguments.pop(param.name) for param in added}
        with waits_said():
            return command(_connection(**given), **arguments)

    return _signed(run, command, list(map(_keyword, (*own, *added))))


def _typed(function: Callable[..., Any]) -> list[inspect.Parameter]:
    """The parameters of *function*, with their annotations evaluated."""
    hints = get_type_hints(function, include_extras=True)
    parameters = inspect.signature(function).parameters.values()
    return [param.replace(annotation=hints[param.name]) for param in parameters]


def _keyword(param: inspect.Parameter) -> inspect.Parameter:
    return param.replace(kind=inspect.Parameter.KEYWORD_ONLY)


def _signed(
    run: Callable[..., Any], command: Callable[..., Any], params: list[inspect.Parameter]
) -> Callable[..., Any]:
    """*run* with the name and the text of *command*, and with *params*, which Typer reads."""
    run.__signature__ = inspect.Signature(params)  # type: ignore[attr-defined]
    run.__annotations__ = {param.name: param.annotation for param in params}
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, __name__
    return run
