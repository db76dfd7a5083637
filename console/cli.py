"""The program `breakglass`: its options, its commands, its way out."""

from __future__ import annotations

from typing import Annotated

import typer

from breakglass import __version__
from breakglass.console.commands import Program
from breakglass.console.exits import run_app

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

    What is lost? Which replica loses least? How do you put saved records back?
    Without a command the console opens; its options are those of `breakglass console`.
    No breakglass command changes the cluster without --write and your consent; --dry-run overrides
    --write everywhere.
    `breakglass help COMMAND` explains a command, and `breakglass help connection` how to name the
    cluster.
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
