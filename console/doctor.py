"""`breakglass doctor`: whether this machine and this user could handle an incident."""

from __future__ import annotations

import os
import shutil
import sys
from collections.abc import Sequence
from typing import TYPE_CHECKING

import typer

from breakglass import __version__
from breakglass.console.cli import new_app
from breakglass.console.exits import FAILED
from breakglass.console.options import AsJson, connected
from breakglass.console.output import columns, print_json, print_table
from breakglass.console.wiring import Connection
from breakglass.services.doctor.checks import (
    Check,
    CheckState,
    ClusterFacts,
    TerminalFacts,
    cluster_checks,
    machine_checks,
)
from breakglass.services.errors import BreakglassError
from breakglass.services.recovery.guarded.rescue_choice import default_folder

if TYPE_CHECKING:
    from breakglass.services.doctor.checks import MachineFacts

SCHEMA = 1
COLUMNS = columns("State", "Check", "What was found", "What to do")
NO_CLUSTER = Check(
    "cluster",
    CheckState.UNKNOWN,
    "no cluster is named",
    "name one: --bootstrap-server or --profile",
)

app = new_app()


@app.command("doctor")
@connected
def examine(connection: Connection, as_json: AsJson = False) -> None:
    """Check what an incident needs: Java, terminal, locale, space, connections, ACLs, clock.

    Each line has one of four states. ok: it is in order. do: something is wrong, and the line says
    what to do. note: something is not possible here. ?: the command could not tell.
    The exit code is 1 if there is something to do. Nothing is changed.
    """
    checks = [*machine_checks(_machine()), *_of_cluster(connection)]
    todo = sum(check.state is CheckState.TODO for check in checks)
    if as_json:
        print_json({"schema": SCHEMA, "todo": todo, "checks": checks})
    else:
        print_table(
            COLUMNS,
            [(check.state.value, check.name, check.found, check.action) for check in checks],
        )
    if todo:
        raise typer.Exit(FAILED)


def _of_cluster(connection: Connection) -> Sequence[Check]:
    from breakglass.services.doctor.cluster import cluster_facts

    if not connection.addressed:
        return (NO_CLUSTER,)
    try:
        facts = cluster_facts(connection.access())
    except BreakglassError as error:
        facts = ClusterFacts("its settings", trouble=str(error))
    return tuple(cluster_checks(facts))


def _machine() -> MachineFacts:
    from breakglass.screens.terminal import Terminal
    from breakglass.services.doctor.cluster import machine_facts

    size = shutil.get_terminal_size()
    found = Terminal.detect()
    terminal = TerminalFacts(
        os.environ.get("TERM", ""),
        sys.stdin.isatty() and sys.stdout.isatty(),
        (size.columns, size.lines),
        found.ascii_only,
        found.colors.value,
    )
    return machine_facts(__version__, terminal, default_folder())
