"""`breakglass quorum`: which copy of the metadata loses least when the controllers are gone."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import FAILED, StopSignal
from breakglass.console.guarded import GuardedCommand, say_facts
from breakglass.console.options import AsJson, GivenConsent, with_groups
from breakglass.console.output import json_text, members, print_json, print_lines, print_table, say
from breakglass.console.quorum_text import (
    COLUMNS,
    NODES,
    copy_row,
    inspection_document,
    inspection_lines,
    node_rows,
    plan_lines,
    step_lines,
)
from breakglass.services.quorum.machine_steps import ServiceManager

app = new_app("Compare copies of the controllers' metadata log.")

CAVEATS = (
    "Kafka does not store the metadata log's high watermark: the last records of a copy may not "
    "have been committed.",
    "A machine whose folders were not named may have a newer copy: each controller and each broker "
    "has one.",
)


NEW = "A new file or folder to write."
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="log:DIR...",
        help="Folders of log.dirs, of controllers and brokers; or copies of them.",
        show_default=False,
    ),
]


ChosenCopy = Annotated[
    str | None,
    typer.Option("--copy", metavar="log:DIR", help="Choose this copy, not the best one."),
]


@app.callback()
def quorum() -> None:
    """Bring a cluster back from the best copy of the metadata log, when the controllers are gone.

    Each controller has a copy of the metadata log, and so has each broker. inspect compares the
    copies, plan decides what becomes of each node, prepare writes the folder of the new controller.
    """


@app.command()
def inspect(
    sources: Sources,
    copy: ChosenCopy = None,
    as_json: AsJson = False,
) -> None:
    """Compare copies of the metadata log, and say what each lacks against the best one.

    Name every folder that you can read: those of controllers, brokers, and copies of them. The
    folders are only read, and their nodes may run. The command ranks the copies as raft does and
    compares them batch by batch. Folders with topics are compared with the copy as well: which of
    them would become strays, and whose ISR, leader epochs or producer ids the copy is too old for.
    Ends with 0 if each copy is proved a prefix of the best and the data folders agree with it, and
    with 1 if a copy is damaged, forked or not compared, or something would be lost.
    """
    from breakglass.services.quorum.inspection import inspect_copies

    with StopSignal() as stop:
        stop.armed()
        found = inspect_copies(sources, copy, stop.go_on)
    if as_json:
        print_json({**inspection_document(found), "caveats": CAVEATS})
    else:
        print_table(COLUMNS, [copy_row(one) for one in found.copies])
        print_lines(inspection_lines(found))
    for caveat in CAVEATS:
        say(caveat)
    raise typer.Exit(0 if found.in_order else FAILED)


@app.command()
def plan(
    sources: Sources,
    voter: Annotated[
        str,
        typer.Option(
            "--voter",
            metavar="N[@HOST:PORT]",
            help="The controller that leads alone, with the address of its controller listener.",
        ),
    ],
    out: Annotated[Path, typer.Option("--out", metavar="PLAN", help=NEW)],
    copy: ChosenCopy = None,
    as_json: AsJson = False,
) -> None:
    """Decide how the cluster comes back from one copy of the metadata, under one new voter.

    Name every folder that you can read, metadata and data, and stop the controllers first. The plan
    has the epoch and the records to append, what to do with the metadata folder of each node, and
    what is lost. Nothing but the plan is written.
    """
    from breakglass.services.quorum.plan import make_plan, write_plan

    with StopSignal() as stop:
        stop.armed()
        made = make_plan(sources, voter, copy, stop.go_on)
    document = made.document()
    write_plan(out, json_text(document, 1))
    if as_json:
        print_json(document)
        return
    print_table(NODES, node_rows(made))
    print_lines(plan_lines(made))
    say(f"Plan {document['digest'][:8]} is in {out}.")


@app.command()
@with_groups
def prepare(
    plan: Annotated[Path, typer.Argument(metavar="PLAN", help="A plan of quorum plan.")],
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help=NEW),
    ],
    manager: Annotated[
        ServiceManager,
        typer.Option("--manager", help="What starts and stops the nodes, for the commands."),
    ] = ServiceManager.SYSTEMD,
    write: Annotated[
        bool,
        typer.Option(
            "--write", help="Allow changes; without it, or with --dry-run, nothing is changed."
        ),
    ] = False,
    *,
    consent: GivenConsent,
    as_json: AsJson = False,
) -> None:
    """Write the metadata folder of the new controller, and print the commands for each machine.

    Reads every folder of the plan again, and refuses if one of them changed. The folder is new; no
    folder of a node is written to. It is read again before it gets its name.
    """
    from breakglass.services.quorum.machine_steps import machine_steps
    from breakglass.services.quorum.prepare import PrepareQuorum

    command = GuardedCommand(PrepareQuorum(plan, out), consent)
    frozen = command.freeze()
    say_facts(frozen.facts)
    for remark in frozen.remarks:
        say(remark)
    made = command.carry_out(frozen, write=write).value
    say(f"{out} is written, and was read again: it has the chosen copy and what is appended.")
    if as_json:
        steps = [
            {
                **members(step, "title commands settings start check then"),
                **members(step.node, "node broker action reason folder"),
            }
            for step in machine_steps(made, frozen.source, out.absolute(), manager)
        ]
        print_json({"schema": 1, "out": out.absolute(), "digest": frozen.source, "steps": steps})
    else:
        print_lines(step_lines(made, frozen.source, out.absolute(), manager))
