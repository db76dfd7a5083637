"""The options that commands share: how to reach a cluster, and whether it may be changed."""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Annotated, Any, get_type_hints

import typer

from breakglass.console import completion
from breakglass.console.wiring import Connection
from breakglass.services.contents_effort import Effort

PANEL = "Connection"

_BOOTSTRAP = typer.Option(
    "--bootstrap-server", metavar="HOST:PORT,...", help="Brokers to begin with."
)
_COMMAND_CONFIG = typer.Option(
    "--command-config", metavar="FILE", help="Client properties with Kafka's own keys."
)
_PROFILE = typer.Option(
    "--profile",
    metavar="NAME",
    help="A profile of your config folder.",
    autocompletion=completion.profiles,
)
_BROKER_ADDRESS = typer.Option(
    "--broker-address", metavar="ID=HOST:PORT", help="Where to reach a broker (repeatable)."
)
_LISTENER = typer.Option("--listener", metavar="NAME", help="Which listener of the brokers to use.")
_NATIVE = typer.Option(
    "--native-rpc",
    metavar="auto|off|KEY",
    help="Whether to use KIP-1275's own requests.",
    autocompletion=completion.native_rpc,
)
_WRITE = typer.Option("--write", help="Allow this command to change the cluster.")

Gone = Annotated[
    list[str] | None,
    typer.Option(
        "--gone",
        metavar="ID...",
        help="Brokers whose disks are lost: never waited for (as 4 7, 4,7, or repeated).",
    ),
]
"""Read it with `option_values.broker_ids`."""

Theme = Annotated[
    str | None,
    typer.Option(
        "--theme",
        metavar="NAME",
        help="How everything looks.",
        autocompletion=completion.themes,
    ),
]

Duration = Annotated[
    int, typer.Option("--recovery-duration-ms", min=1, help="How long brokers may answer.")
]
DURATION_MS = 30_000
"""Its default, KIP-1275's."""

VerifyContents = Annotated[
    Effort,
    typer.Option(
        "--verify-contents",
        case_sensitive=False,
        help="How far a replica's batches are read before it is proposed.",
    ),
]
AsJson = Annotated[bool, typer.Option("--json", help="One JSON document.")]
DryRun = Annotated[bool, typer.Option("--dry-run", help="Print what would be done, as JSON.")]


def connected(command: Callable[..., Any]) -> Callable[..., Any]:
    """Give *command* the connection options; it gets a Connection as its first argument."""
    return _with_options(command, writes=False)


def connected_for_writing(command: Callable[..., Any]) -> Callable[..., Any]:
    """The same with `--write`."""
    return _with_options(command, writes=True)


def _with_options(command: Callable[..., Any], *, writes: bool) -> Callable[..., Any]:
    own = list(inspect.signature(command).parameters.values())[1:]
    hints = get_type_hints(command, include_extras=True)
    added = _connection_parameters(writes=writes)

    def run(**arguments: Any) -> Any:
        given = {one.name: arguments.pop(one.name) for one in added}
        return command(_connection(**given), **arguments)

    typed = [one.replace(annotation=hints[one.name]) for one in own]
    keyword = inspect.Parameter.KEYWORD_ONLY
    parameters = [one.replace(kind=keyword) for one in (*typed, *added)]
    run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
    run.__annotations__ = {one.name: one.annotation for one in parameters}
    run.__name__, run.__doc__, run.__module__ = command.__name__, command.__doc__, __name__
    return run


def _connection_parameters(*, writes: bool) -> list[inspect.Parameter]:
    text = str | None
    table: list[tuple[str, Any, Any]] = [
        ("bootstrap_server", Annotated[text, _BOOTSTRAP], None),
        ("command_config", Annotated[text, _COMMAND_CONFIG], None),
        ("profile", Annotated[text, _PROFILE], None),
        ("broker_address", Annotated[list[str] | None, _BROKER_ADDRESS], None),
        ("listener", Annotated[text, _LISTENER], None),
        ("native_rpc", Annotated[str, _NATIVE], "auto"),
    ]
    if writes:
        table.append(("write", Annotated[bool, _WRITE], False))
    kind = inspect.Parameter.KEYWORD_ONLY
    return [
        inspect.Parameter(name, kind, default=default, annotation=annotation)
        for name, annotation, default in table
    ]


def _connection(
    *,
    native_rpc: str,
    broker_address: list[str] | None,
    write: bool = False,
    **texts: str | None,
) -> Connection:
    from breakglass.services.connection.sources import ConnectionOptions

    options = ConnectionOptions(broker_address=tuple(broker_address or ()), **texts)
    return Connection(options, native_rpc, write)
