"""`breakglass quorum`: brings a cluster back from a copy of the metadata, without controllers."""

from __future__ import annotations

import shlex
import time
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.cli import new_app
from breakglass.console.exits import FAILED, StopSignal
from breakglass.console.guarded import GuardedCommand, say_facts
from breakglass.console.options import SECONDS, AsJson, GivenConsent, Seconds, Write, connected
from breakglass.console.output import (
    columns,
    json_text,
    members,
    of_partition,
    print_json,
    print_lines,
    print_table,
    say,
)
from breakglass.console.wiring import Connection, deadline_after
from breakglass.services.connection.endpoint import parse_endpoints
from breakglass.services.errors import NoBrokerNamed
from breakglass.services.model import Unknown
from breakglass.services.patience import REQUEST
from breakglass.services.quorum.machine_steps import ServiceManager, machine_steps, rebuild_indexes
from breakglass.services.quorum.wording import (
    BACK,
    CAVEATS,
    NOT_LOOKED,
    back_line,
    first_lines,
    inspection_lines,
    plan_lines,
    step_lines,
)
from breakglass.services.words.figures import count
from breakglass.services.words.moments import time_text

if TYPE_CHECKING:
    from breakglass.services.quorum.change_words import SaidChange
    from breakglass.services.quorum.comparison import ComparedCopy
    from breakglass.services.quorum.inspection import QuorumInspection
    from breakglass.services.quorum.plan import Ask
    from breakglass.services.quorum.status import QuorumNode
    from breakglass.services.quorum.strays import FoundStray

app = new_app(
    "See which controllers are missing; bring a cluster back.\n\n"
    "Without a command, it asks the brokers, and at their own listeners the controllers that "
    "--bootstrap-controller names or that other nodes know. It says which controllers to start and "
    "what not to do. Exits with 0 if a controller leads, with 1 if none does or it is unknown.\n\n"
    "If the disks of a majority are lost, the cluster can come back from a copy of the metadata "
    "log, which every controller and broker has. inspect compares the copies; plan decides what "
    "becomes of each node; prepare writes the folder of the new controller; watch follows the "
    "return. strays shows the folders that brokers renamed to -stray."
)

COLUMNS = columns(
    "Copy", "Node", ">Start", ">End", ">Epoch", ">Snapshots", "Voters", "Newest record", "Compared"
)
QUORUM = columns("Node", "Role", ">Epoch", ">Log end", ">Lag", ">Fetched", "Address", "Answers")
EVERY_SECONDS = 1.0
STRAYS = columns("Broker", "Topic-partition", ">Start", ">End", "Newest record", "Fate", "Folder")
NODES = columns("Node", "Metadata folder", "Action", "Reason")
NEW = "A new file or folder to write."
Sources = Annotated[
    list[str],
    typer.Argument(
        metavar="log:DIR...",
        help="Folders of log.dirs, of controllers and brokers; or copies of them.",
        show_default=False,
    ),
]
Plan = Annotated[Path, typer.Argument(metavar="PLAN", help="A plan of quorum plan.")]
ChosenCopy = Annotated[
    str | None,
    typer.Option("--copy", metavar="log:DIR", help="Choose this copy, not the best one."),
]

ANY_ADDRESS = "localhost:9092"
"""Stands for bootstrap servers, of which nothing is asked."""
BOOTSTRAP_CONTROLLER = "--bootstrap-controller"
ControllerAddresses = Annotated[
    str | None,
    typer.Option(
        BOOTSTRAP_CONTROLLER,
        metavar="HOST:PORT,...",
        help="Controllers to ask first, at their own listener.",
    ),
]


@app.callback(invoke_without_command=True, no_args_is_help=False)
@connected
def quorum(
    connection: Connection,
    context: typer.Context,
    controllers: ControllerAddresses = None,
    as_json: AsJson = False,
) -> None:
    """Show which controllers and brokers answer, and which controllers have to be started."""
    if context.invoked_subcommand is not None:
        return
    from breakglass.services.quorum.status import look_at_quorum

    given = parse_endpoints(controllers, BOOTSTRAP_CONTROLLER) if controllers else ()
    brokers = _names_brokers(connection) or not given
    access = (connection if brokers else _at(connection, controllers)).noted_access()
    with access.reading() as client:
        found = look_at_quorum(client if brokers else None, given, access.sender_at)
    if as_json:
        print_json(
            {
                "schema": 1,
                **members(found, "cluster_id leader quorum dynamic voters majority lacking"),
                "nodes": [
                    {
                        **members(one, "name id broker address trouble role epoch"),
                        **members(one, "log_end applied lag silent_ms"),
                    }
                    for one in found.nodes
                ],
                "missing": [one.name for one in found.missing],
                "advice": [*found.advice()],
            }
        )
    else:
        print_lines([*found.advice(), found.about()])
        print_table(QUORUM, map(_node_row, found.nodes))
    raise typer.Exit(0 if found.in_order else FAILED)


@app.command()
def inspect(
    sources: Sources,
    copy: ChosenCopy = None,
    as_json: AsJson = False,
) -> None:
    """Compare copies of the metadata log, and show what each lacks that the best one has.

    Name every folder that you can read: those of controllers, brokers, and copies of them. The
    command changes nothing in them, and their nodes may be running. The command ranks the copies as
    raft does and compares them batch by batch. If you also name data folders, the command says
    which partitions would become strays, and where the copy is too old for the ISR, leader epochs
    or producer ids. Exits with 0 if each copy is proved to be a prefix of the best and the data
    folders agree with it, and with 1 if a copy is damaged, forked or not compared, or something
    would be lost.
    """
    from breakglass.services.quorum.strays import counted, inspect_with_strays

    with StopSignal() as stop:
        stop.armed()
        found = inspect_with_strays(sources, copy, stop.go_on)
    if as_json:
        more = {"stray_records": counted(found.renamed), "caveats": CAVEATS}
        print_json({**_inspection_document(found), **more})
    else:
        print_table(COLUMNS, [_copy_row(one) for one in found.copies])
        print_lines(inspection_lines(found))
    for caveat in CAVEATS:
        say(caveat)
    raise typer.Exit(0 if found.in_order else FAILED)


@app.command()
@connected
def plan(
    connection: Connection,
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
    give_up_strays: Annotated[
        bool,
        typer.Option("--give-up-strays", help="Give up the records in -stray folders."),
    ] = False,
    *,
    as_json: AsJson = False,
) -> None:
    """Decide how the cluster comes back from one copy of the metadata, under one new voter.

    Name every folder that you can read, metadata and data, and stop the controllers first. The plan
    has the epoch and the records to append, what to do with the metadata folder of each node, and
    what is lost. Nothing but the plan is written. The nodes are asked at the addresses in the copy,
    with the client properties of the connection: a controller that answers refuses the plan.
    """
    from breakglass.services.quorum.plan import make_plan, write_plan

    with StopSignal() as stop:
        stop.armed()
        ask = _asking(connection)
        made = make_plan(sources, voter, copy, stop.go_on, ask, without_strays=give_up_strays)
    document = made.document()
    write_plan(out, json_text(document, 1))
    if as_json:
        print_json(document)
        return
    nodes = ((one.name, one.folder or "not named", one.action, one.reason) for one in made.nodes)
    print_table(NODES, nodes)
    print_lines(plan_lines(made))
    say(f"Plan {document['digest'][:8]} is in {out}.")


@app.command()
@connected
def prepare(
    connection: Connection,
    plan: Plan,
    out: Annotated[
        Path,
        typer.Option("--out", metavar="DIR", help=NEW),
    ],
    manager: Annotated[
        ServiceManager,
        typer.Option("--manager", help="What starts and stops the nodes, for the commands."),
    ] = ServiceManager.SYSTEMD,
    write: Write = False,
    *,
    consent: GivenConsent,
    as_json: AsJson = False,
) -> None:
    """Write the metadata folder of the new controller, and print the commands for each machine.

    Reads every folder of the plan and asks the nodes again, and refuses if something changed. The
    folder is new; no folder of a node is written to. It is read again before it gets its name.
    """
    from breakglass.services.quorum.prepare import PrepareQuorum

    command = GuardedCommand(PrepareQuorum(plan, out, _asking(connection)), consent)
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
        print_lines(first_lines(manager))
        ordered = machine_steps(made, frozen.source, out.absolute(), manager)
        for number, step in enumerate(ordered, 1):
            print_lines(["", *step_lines(step, number, manager)])
        watching = "After the last step: breakglass quorum watch PLAN --bootstrap-server HOST:PORT"
        print_lines(["", watching, back_line(frozen.source)])


@app.command()
@connected
def watch(
    connection: Connection,
    plan: Plan,
    duration: Seconds = SECONDS,
    as_json: AsJson = False,
) -> None:
    """Watch a cluster come back as planned, until it is back or a step fails.

    Looks each second at the leader of the controllers and its epoch, the brokers, the ISRs, log
    starts and ends, and at new -stray folders in the brokers' log directories on this machine. Ends
    with 0 if nothing is awaited, and with 1 if a step fails, --within has passed, or a broker has
    its log directories on another machine.
    """
    from breakglass.services.quorum.plan import read_request
    from breakglass.services.quorum.watch import ReturnProgress, look_at_return

    _, document = read_request(plan)
    progress, said = ReturnProgress(), None
    deadline = deadline_after(duration)
    with StopSignal() as stop, connection.reading() as client:
        stop.armed()
        while not deadline.passed:
            progress = look_at_return(client, document, deadline.sooner(REQUEST))
            if progress != said:
                for line in () if progress.wrong else progress.awaited:
                    say(line)
            said = progress
            if progress.ended or stop.requested:
                break
            time.sleep(EVERY_SECONDS)
    if as_json:
        print_json({"schema": 1, **members(progress, "back wrong awaited unseen")})
    else:
        print_lines(progress.wrong or progress.awaited or [BACK])
        if progress.unseen:
            print_lines([NOT_LOOKED.format(", ".join(progress.unseen))])
    raise typer.Exit(0 if progress.back else FAILED)


@app.command()
def strays(sources: Sources, copy: ChosenCopy = None, as_json: AsJson = False) -> None:
    """Show the folders that brokers renamed to -stray, and which of them can come back.

    Name log directories with such folders, and a copy of the metadata that the cluster has, or that
    it is to come back from. The folders are only read; the commands that rename them are printed,
    for a broker that is stopped. Exits with 0 if each folder can come back, and with 1 if not.
    """
    from breakglass.services.quorum.strays import StrayFate, find_strays

    with StopSignal() as stop:
        stop.armed()
        found, listed = find_strays(sources, copy, stop.go_on)
    back = [one for one in listed if one.fate is StrayFate.RETURNS]
    if as_json:
        names = "broker path topic_id start end newest_ms fate why target"
        rows = [{**of_partition(one.partition), **members(one, names)} for one in listed]
        print_json({"schema": 1, "copy": found.chosen.copy.path, "strays": rows})
    else:
        print_table(
            STRAYS,
            [
                (
                    *(one.owner, one.partition, count(one.start), count(one.end)),
                    *(time_text(one.newest_ms), one.fate, one.path),
                )
                for one in listed
            ],
        )
        print_lines(_stray_lines(found, listed, back))
    raise typer.Exit(0 if len(back) == len(listed) else FAILED)


def _at(connection: Connection, servers: str | None) -> Connection:
    """*connection* with other bootstrap servers."""
    return replace(connection, options=replace(connection.options, bootstrap_server=servers))


def _names_brokers(connection: Connection) -> bool:
    """Whether options, environment or profile name brokers; client properties alone need not."""
    try:
        return connection.addressed and bool(connection.access())
    except NoBrokerNamed:
        return False


def _asking(connection: Connection) -> Ask:
    """Looks which nodes answer, with the client properties of *connection*."""
    from breakglass.services.quorum.status import answering_nodes

    known = connection if _names_brokers(connection) else _at(connection, ANY_ADDRESS)
    return partial(answering_nodes, reach=known.noted_access().sender_at)


def _stray_lines(
    found: QuorumInspection, listed: Sequence[FoundStray], back: Sequence[FoundStray]
) -> Iterator[str]:
    """Why the others do not come back, and what brings back those that do."""
    if not listed:
        yield "None of these folders has a -stray folder."
        return
    yield f"The copy of the metadata is {found.chosen.copy.path}."
    reasons = Counter(one.why for one in listed if one not in back)
    yield from (
        f"Folders that do not come back: {number:,}, as {why}." for why, number in reasons.items()
    )
    for broker in sorted({one.owner for one in back}):
        yield f"On {broker}, while it is stopped:"
        own = [one for one in back if one.owner == broker]
        # Also after a clean stop: the broker does not close the indexes of strays.
        for folder in sorted({one.path.parent for one in own}):
            yield f"    {rebuild_indexes(folder)}"
        for one in own:
            path, target = shlex.quote(str(one.path)), shlex.quote(str(one.target))
            yield f"    test ! -e {target} && mv {path} {target}"
    if back:
        yield (
            "Before the brokers start, name these folders to breakglass quorum inspect: it "
            "compares their log ends with the ISR. They come back only if the cluster runs by this "
            "copy."
        )


def _node_row(one: QuorumNode) -> Sequence[object]:
    """A node as a row of `QUORUM`."""
    fetched = one.silent_ms
    return (
        *(one.name, one.role, count(one.epoch), one.log_end_text, count(one.lag)),
        f"{fetched / 1000:,.0f} s" if isinstance(fetched, int) else "?",
        one.address,
        one.answers,
    )


def _copy_row(one: ComparedCopy) -> Sequence[object]:
    """A copy as a row of `COLUMNS`."""
    copy = one.copy
    return (
        copy.path.parent,
        copy.node,
        f"{copy.log_start:,}",
        f"{copy.end.offset:,}",
        copy.end.epoch,
        len(copy.snapshots),
        copy.voters,
        time_text(copy.newest_ms),
        one.relation,
    )


def _inspection_document(found: QuorumInspection) -> dict[str, Any]:
    """What was found, as a document."""
    return {
        "schema": 1,
        "best": found.copies[0].copy.path,
        **members(found, "in_order formatted topic_ids"),
        "chosen": found.chosen.copy.path,
        "copies": [_copy(one) for one in found.copies],
        "undecoded": [{"offset": offset, "record": name} for offset, name in found.unknown],
        "lacks": [
            {
                "path": lack.compared.copy.path,
                "from": lack.compared.shared,
                "records": lack.records,
                "changes": _said(lack.changes),
                "own": _said(lack.own),
            }
            for lack in found.lacks
        ],
        "surviving_snapshots": [
            {"path": one.copy.path, "snapshots": [snapshot.path.name for snapshot in snapshots]}
            for one, snapshots in found.surviving
        ],
        "data": found.data
        if found.data is None or isinstance(found.data, Unknown)
        else {
            **members(found.data, "replicas next_producer_id largest_producer_id"),
            **members(found.data, "producer_id_in reused_producer_ids unread unclosed"),
            "strays": [
                {**of_partition(one.partition), **members(one, "broker path why")}
                for one in found.data.strays
            ],
            "old_leader_epochs": [
                {**of_partition(one.partition), **members(one, "broker copy log")}
                for one in found.data.old_epochs
            ],
            "short_isr_members": [
                {
                    **of_partition(one.partition),
                    **members(one, "broker isr longest committed"),
                    "proved": one.proved,
                    "end": one.end._asdict(),
                    "longest_end": one.longest_end._asdict(),
                }
                for one in found.data.short_members
            ],
        },
    }


def _said(changes: Sequence[SaidChange] | Unknown) -> object:
    if isinstance(changes, Unknown):
        return changes
    return [members(one, "kind what at_ms") for one in changes]


def _copy(one: ComparedCopy) -> dict[str, Any]:
    fork = one.fork
    return {
        **members(one.copy, "path cluster_id node directory_id running quorum_epoch voters"),
        **members(one.copy, "log_start newest_ms damage"),
        "log_end": one.copy.end.offset,
        "last_epoch": one.copy.end.epoch,
        "snapshots": [
            members(snapshot, "offset epoch written_ms damage") for snapshot in one.copy.snapshots
        ],
        "relation": one.relation,
        "compared": None if one.start >= one.end else {"start": one.start, "end": one.end},
        "shared": one.shared,
        "fork": fork
        and {
            "offset": fork.offset,
            "best": fork.best and fork.best._asdict(),
            "copy": fork.copy and fork.copy._asdict(),
        },
    }
