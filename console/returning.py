"""`breakglass can-start`: whether a dead broker may be started under the current leaders."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from breakglass.console.commands import new_app
from breakglass.console.exits import FAILED, INTERRUPTED, StopSignal
from breakglass.console.options import AsJson, GoneBrokers, WhileRunning, connected
from breakglass.console.output import columns, members, of_partition, print_json, print_table, say
from breakglass.console.wiring import Connection
from breakglass.services.recovery.guarded.rescue_choice import all_folders
from breakglass.services.words.inert import inert

if TYPE_CHECKING:
    from breakglass.services.recovery.rescue.broker_folder import BrokerFolder
    from breakglass.services.recovery.rescue.return_check import ReturnCheck

app = new_app()


@dataclass(kw_only=True)
class StartRequest:
    """Options of `can-start`."""

    source: Annotated[
        list[str],
        typer.Argument(metavar="DIR...", help="Every folder of the broker's log.dirs."),
    ]
    rescued: Annotated[
        list[Path] | None,
        typer.Option(
            "--rescued",
            "--store",
            metavar="DIR",
            help="Folder with rescues (repeatable).",
        ),
    ] = None
    beside: Annotated[
        list[str] | None,
        typer.Option(
            "--beside",
            metavar="log:DIR",
            help="Also read the replicas of another broker that is down, from its log folder "
            "(repeatable).",
        ),
    ] = None
    gone: GoneBrokers = ()
    all_log_dirs: Annotated[
        bool,
        typer.Option(
            "--all-log-dirs",
            help="The broker has no other log.dirs: a replica in none of them counts as never "
            "made, not as unread.",
        ),
    ] = False
    while_running: WhileRunning = False
    as_json: AsJson = False


@app.command("can-start")
@connected
def can_start(connection: Connection, wanted: StartRequest) -> None:
    """Check what a dead broker would lose if it started now, from its log folders on disk.

    A broker that starts as a follower truncates its logs to match the current leaders'. If it leads
    as soon as it starts, the other replicas truncate to match its log. The broker is safe to start
    if rescues have every record and every transaction marker that its start cuts. The result also
    names the replicas that could not be read. The command changes neither the cluster nor the
    folders nor the rescues. Exits with 0 if the broker is safe to start, and with 1 if not.
    """
    from breakglass.services.recovery.remembered.store import ReplicaMemory
    from breakglass.services.recovery.rescue.return_check import NamedDisks, check_return

    folders = _opened(wanted.source, while_running=wanted.while_running)
    others = _opened(wanted.beside or (), while_running=wanted.while_running)
    disks = NamedDisks(folders, wanted.all_log_dirs, others, wanted.gone)
    with StopSignal() as stop, connection.reading() as client:
        stop.armed()
        rescues = [*all_folders(folders[0].cluster_id or ""), *(wanted.rescued or [])]
        memory = ReplicaMemory(folders[0].cluster_id or "")
        check = check_return(client, disks, rescues, stop.go_on, memory)
    if check.safe and not stop.requested:
        memory.note_checked(check.broker, check.leaders)
    if wanted.as_json:
        print_json(_document(check))
    else:
        rows = (
            (
                one.partition,
                None if one.leader is None else f"b{one.leader}",
                ", ".join(f"{span.start:,}-{span.end - 1:,}" for span in one.dropped) or None,
                *(f"{figure:,}" for figure in (one.records, one.rescued, one.lost)),
                one.fate,
            )
            for one in check.replicas
            if not one.fate.safe or one.records or one.markers
        )
        print_table(COLUMNS, rows)
    for sentence in check.sentences:
        say(inert(sentence))
    code = 0 if check.safe else FAILED
    raise typer.Exit(INTERRUPTED if stop.requested else code)


def _opened(sources: Sequence[str], *, while_running: bool) -> list[BrokerFolder]:
    from breakglass.services.recovery.rescue.broker_folder import open_log_folder

    folders = [
        open_log_folder(
            source if source.startswith("log:") else f"log:{source}", while_running=while_running
        )
        for source in sources
    ]
    aside = [name for folder in folders for name in folder.aside]
    for name in aside[:SHOWN_ASIDE]:
        say(f"passed over: {inert(name)}")
    if len(aside) > SHOWN_ASIDE:
        more = f"{len(aside) - SHOWN_ASIDE:,} more folders"
        say(f"passed over: {more} of replicas that are being deleted or moved (--json names them)")
    return folders


SHOWN_ASIDE = 3
"""Folders that are passed over and named, each in a line."""


COLUMNS = columns("Topic-partition", "Leader", "Drops", ">Records", ">Rescued", ">Lost", "Fate")


def _document(check: ReturnCheck) -> dict[str, Any]:
    return {
        "schema": 1,
        "cluster_id": check.cluster_id,
        "broker": check.broker,
        "from": [{"path": folder.path, "passed_over": folder.aside} for folder in check.folders],
        "safe_to_start": check.safe,
        **members(check, "lost lost_markers shorter older"),
        "rescues_not_read": check.unread,
        "partitions": [
            {
                **of_partition(replica.partition),
                **members(replica, "log leader start end reached fate why dropped records rescued"),
                **members(replica, "lost leads markers lost_markers first_lost unreadable torn"),
            }
            for replica in check.replicas
        ],
    }
