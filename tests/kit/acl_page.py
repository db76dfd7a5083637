"""What docs/acls.md says that each command has to be allowed: the tests hold it to that."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import OPERATOR
from scripts import cli_reference
from tests.kit.access import CLUSTER_NAME, Acl, Operation, Resource, granted
from tests.kit.program import Ended, breakglass

PAGE = Path(__file__).parents[2] / "docs" / "acls.md"
ROW = re.compile(r"^\| (`[^|]+`) \|([^|]*)\|([^|]*)\|([^|]*)\|$")
"""Commands; operations on its topics, on CLUSTER, on groups."""
WEAKER = {
    Operation.READ: Operation.DESCRIBE,
    Operation.ALTER: Operation.DESCRIBE,
    Operation.ALTER_CONFIGS: Operation.DESCRIBE_CONFIGS,
}
"""What is left of an ACL that includes another, once it alone is taken away."""


@dataclass(frozen=True, slots=True)
class Needs:
    """The operations that one command needs, on its topics, on CLUSTER and on groups."""

    command: str
    topic: tuple[str, ...]
    cluster: tuple[str, ...]
    group: tuple[str, ...]


def needs_of_commands() -> dict[str, Needs]:
    """The page's table, by command."""
    return {row.command: row for row in _rows()}


def acls_of(command: str, topic: str, group: str = "*") -> list[Acl]:
    """What the page says that *command* needs, on *topic* and *group*, for the operator."""
    needs, names = needs_of_commands()[command], {Resource.TOPIC: topic, Resource.GROUP: group}
    return [
        Acl(OPERATOR, Operation[operation], resource, names.get(resource, CLUSTER_NAME))
        for resource, operations in (
            (Resource.TOPIC, needs.topic),
            (Resource.CLUSTER, needs.cluster),
            (Resource.GROUP, needs.group),
        )
        for operation in operations
    ]


def allowed(cluster: Cluster, config: Path, acls: list[Acl], *words: object) -> Ended:
    """The program, run as the operator, who has *acls* meanwhile."""
    servers = ("--bootstrap-server", cluster.bootstrap_servers, "--command-config", config)
    with granted(cluster, *acls):
        return breakglass(*words, *servers)


def all_but(acls: list[Acl], gone: Acl) -> list[Acl]:
    """*acls* without one, of which what it includes is left."""
    rest, weaker = [acl for acl in acls if acl != gone], WEAKER.get(gone.operation)
    return rest if weaker is None else [*rest, replace(gone, operation=weaker)]


def _rows() -> Iterator[Needs]:
    for line in PAGE.read_text(encoding="utf-8").splitlines():
        if row := ROW.match(line):
            commands, *cells = row.groups()
            needs = [tuple(re.findall(r"[A-Z_]+", cell)) for cell in cells]
            yield from (Needs(command, *needs) for command in re.findall(r"`([^`]+)`", commands))


def asking_commands() -> set[str]:
    """The commands that ask a cluster."""
    return {
        command.command_path.removeprefix("breakglass ")
        for command in cli_reference.commands()
        if any(option.name == "bootstrap_server" for option in command.command.params)
    }
