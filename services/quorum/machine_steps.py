"""The commands and configuration lines that carry out a plan, machine by machine, in their order.

Every folder that is in the way is moved next to the log directory. Inside of it, a broker would
take the moved folder for a partition and not start.
"""

from __future__ import annotations

import shlex
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from enum import StrEnum
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple, assert_never
from uuid import UUID, uuid5

from breakglass.services.model import kafka_id
from breakglass.services.recovery.rescue.broker_folder import CLEAN_SHUTDOWN, LOCK, METADATA_LOG

if TYPE_CHECKING:
    from breakglass.services.quorum.plan import QuorumPlan

EACH = "EACH_OF_ITS_LOG_DIRS"
SHOWN = 10
"""Folders that a sentence names."""
METADATA_FOLDER = f"{METADATA_LOG}-0"


class NodeAction(StrEnum):
    """What is to be done with a node's metadata folder."""

    PROMOTE = "promote"
    REPLACE = "replace"
    KEEP = "keep"
    LEAVE_RUNNING = "leave running"
    DO_NOT_START = "do not start"


class NodeStep(NamedTuple):
    """A node and what is to be done with its metadata folder, in the order of starts."""

    node: int
    broker: bool
    action: NodeAction
    reason: str
    folder: Path | None
    """Its folder of the metadata log was read in here; None: it was not named."""
    data: tuple[Path, ...] = ()
    """Its log directories that were named."""
    combined: bool = False
    """A broker that was a controller as well."""

    @property
    def name(self) -> str:
        return f"{'b' if self.broker else 'c'}{self.node}"


class ServiceManager(StrEnum):
    """What starts and stops the nodes."""

    SYSTEMD = "systemd"
    PROCESS = "process"
    POD = "pod"


SOME_NOT_NAMED = (
    "Some of its log directories were not named. If they are lost, do not start it before "
    "breakglass triage shows no offline partition: with an empty log, it would lead each partition "
    "whose ISR has no other member, and the other replicas would truncate their logs to it."
)
STOP = {
    ServiceManager.SYSTEMD: "systemctl stop kafka    # after a minute: systemctl kill -s KILL",
    ServiceManager.PROCESS: "kill PID    # after a minute: kill -9 PID",
    ServiceManager.POD: "kubectl scale statefulset NAME --replicas=0",
}
"""Without controllers, a broker does not end by SIGTERM alone."""
_START = {
    ServiceManager.SYSTEMD: "systemctl start kafka",
    ServiceManager.PROCESS: "bin/kafka-server-start.sh -daemon config/server.properties",
    ServiceManager.POD: "kubectl scale statefulset NAME --replicas=COUNT",
}


@dataclass(frozen=True, slots=True)
class MachineStep:
    """What to do on one machine."""

    node: NodeStep
    title: str
    commands: tuple[str, ...] = ()
    """For a shell, as they are; the first lines set the variables that the others use."""
    settings: tuple[str, ...] = ()
    """Lines of its configuration file."""
    start: str = ""
    check: tuple[str, ...] = ()
    """Commands that only look."""
    then: str = ""
    """What they have to show before the next step."""


def quorum_setting(plan: QuorumPlan) -> str:
    """The line that names the new voter."""
    voter = plan.request.voter
    if plan.dynamic:
        return f"controller.quorum.bootstrap.servers={voter.host}:{voter.port}"
    return f"controller.quorum.voters={voter}"


def machine_steps(
    plan: QuorumPlan, digest: str, out: Path, manager: ServiceManager
) -> Iterator[MachineStep]:
    """A step for each node, in the order of starts."""
    for node in plan.nodes:
        match node.action:
            case NodeAction.PROMOTE:
                yield _promote(plan, node, digest, out, manager)
            case NodeAction.REPLACE | NodeAction.KEEP:
                yield _broker(plan, node, digest, out, manager)
            case NodeAction.LEAVE_RUNNING:
                then = f"It needs {quorum_setting(plan)} or a list that has this voter. "
                then += "If it has another, stop it, change the line, and start it."
                yield MachineStep(node, f"Leave {node.name} running", then=then)
            case NodeAction.DO_NOT_START:
                then = (
                    "Make sure that it is off, and keep its disk. It joins when the quorum grows."
                )
                yield MachineStep(node, f"Do not start {node.name}", then=then)
            case _:
                assert_never(node.action)


def _promote(
    plan: QuorumPlan, node: NodeStep, digest: str, out: Path, manager: ServiceManager
) -> MachineStep:
    voter = plan.request.voter
    own = f'"$METADATA_DIR/{METADATA_FOLDER}" "$METADATA_DIR/meta.properties"'
    commands = (
        *_variables(node, digest, out),
        'mkdir -p "$METADATA_DIR" "$ASIDE"',
        f"for one in {own}; do",
        '  test ! -e "$one" || mv "$one" "$ASIDE/"',
        "done",
        f'test -e "$METADATA_DIR/{METADATA_FOLDER}" || cp -R "$PROMOTED/." "$METADATA_DIR/"',
        f'chown -R "$(stat -c %u:%g "$METADATA_DIR")" {own}',
    )
    settings = (
        "process.roles=controller",
        f"node.id={voter.node}",
        f"controller.listener.names={voter.listener}",
        quorum_setting(plan),
    )
    state = f'"$METADATA_DIR/{METADATA_FOLDER}/quorum-state"'
    return MachineStep(
        node,
        f"Start {node.name} alone",
        commands,
        settings,
        _START[manager],
        (f"""grep -o '"leaderId":[-0-9]*,"leaderEpoch":[0-9]*' {state}""",),
        f"Go on when this prints leaderId {voter.node} and a leaderEpoch above {plan.epoch}.",
    )


def _broker(
    plan: QuorumPlan, node: NodeStep, digest: str, out: Path, manager: ServiceManager
) -> MachineStep:
    commands: tuple[str, ...] = ()
    own, meta = f'"$METADATA_DIR/{METADATA_FOLDER}"', '"$METADATA_DIR/meta.properties"'
    empty = node.data and not node.folder
    owner = shlex.quote(str(node.data[0])) if empty else '"$METADATA_DIR"'
    # An id that no directory has, the same each time. Kafka has none that begin with a dash.
    drawn = (uuid5(plan.request.voter.directory_id, f"{node.node} {one}") for one in count())
    directory = next(one for one in drawn if not kafka_id(one).startswith("-"))
    lines = meta_lines(plan.cluster_id, node.node, directory)
    written = " ".join(map(shlex.quote, lines))
    if node.action is NodeAction.REPLACE:
        commands = (
            *_variables(node, digest, out),
            'mkdir -p "$METADATA_DIR" "$ASIDE"',
            f'test ! -e {own} || mv {own} "$ASIDE/"',
            f'test -e {own} || cp -R "$PROMOTED/{METADATA_FOLDER}" "$METADATA_DIR/"',
            # On an empty disk.
            f"test -e {meta} || printf '%s\\n' {written} >{meta}",
            f'chown "$(stat -c %u:%g {owner})" "$METADATA_DIR" {meta}',
            f'chown -R "$(stat -c %u:%g {owner})" {own}',
        )
    folders = node.data or ((node.folder.parent,) if node.folder else ())
    unclosed = {one.parent for one in plan.unclosed} & {*folders}
    places = dict.fromkeys(one if _in_use(one) else Path(EACH) for one in folders) or {Path(EACH)}
    unclosed = {one if _in_use(one) else Path(EACH) for one in unclosed}
    commands += tuple(rebuild_indexes(one) for one in sorted(unclosed))
    named = " ".join(shlex.quote(str(one)) for one in places)
    left = sorted(one.path.name for one in plan.strays if one.path.parent in folders)
    then = "this prints no folder that was not there before"
    if left:
        more = f" and {len(left) - SHOWN:,} more that the plan names" if left[SHOWN:] else ""
        those = "this partition" if len(left) == 1 else f"these {len(left):,} partitions"
        then = f"any new folder that this prints is of {those}: {', '.join(left[:SHOWN])}{more}"
    roles: tuple[str, ...] = ()
    if node.combined and not plan.dynamic:
        # Kafka does not start a controller that is not among its own static voters.
        leave_out = f"# Leave {plan.request.voter.listener} out of listeners, advertised.listeners."
        roles = "process.roles=broker", leave_out
    then = f"Go on when the broker has started and {then}."
    if lacks_data(node.name, plan.missing):
        then = f"{SOME_NOT_NAMED} {then}"
    return MachineStep(
        node,
        f"Start {node.name}",
        commands,
        (*roles, quorum_setting(plan)),
        _START[manager],
        (f"find {named} -maxdepth 1 -name '*-stray'",),
        then,
    )


def lacks_data(broker: str, missing: Iterable[str]) -> bool:
    """Whether a log directory of *broker* is among what was not named."""
    return any(one.endswith(f" of {broker}") for one in missing)


def rebuild_indexes(log_dir: Path) -> str:
    """The command after which the broker of *log_dir* rebuilds the indexes of its logs."""
    path = shlex.quote(str(log_dir / CLEAN_SHUTDOWN))
    return f"rm -f {path}    # or retention deletes logs whose indexes were not closed"


def meta_lines(cluster_id: str, node: int, directory_id: UUID) -> tuple[str, ...]:
    """The lines of the meta.properties of a log directory."""
    ids = f"cluster.id={cluster_id}", f"node.id={node}"
    return ("version=1", *ids, f"directory.id={kafka_id(directory_id)}")


def _in_use(folder: Path) -> bool:
    """Whether a node made its lock in *folder*, as in each directory that it uses.

    A copy of the metadata folder and of meta.properties has none.
    """
    return (folder / LOCK).exists()


def _variables(node: NodeStep, digest: str, out: Path) -> tuple[str, ...]:
    folder = node.folder.parent if node.folder else None
    known = folder is not None and _in_use(folder)
    named = shlex.quote(str(folder)) if known else f"/METADATA_LOG_DIR_OF_{node.name.upper()}"
    return (
        f"METADATA_DIR={named}    # its metadata.log.dir, or else the first of its log.dirs",
        f'ASIDE="$METADATA_DIR.aside-{digest[:8]}"    # next to it; keep it',
        f"PROMOTED={shlex.quote(str(out))}    # copy this folder to the machine",
    )
