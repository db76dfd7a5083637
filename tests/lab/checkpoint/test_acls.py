"""docs/acls.md holds for `breakglass checkpoint`: what it says is needed is, and is enough."""

from collections.abc import Iterator, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.checkpoint.participant.participant import Guarantee
from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.kafka.read_client import ReadClient
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import OPERATOR
from breakglass.services.session import ReadAccess
from tests.kit.access import Acl, Operation, Resource, granted
from tests.kit.acl_page import needs_of_commands
from tests.kit.client_properties import write_client_properties
from tests.kit.program import Ended, breakglass
from tests.lab.checkpoint.bank import nothing
from tests.lab.checkpoint.branch import Branch
from tests.lab.checkpoint.plain import all_the_while

BANK, AGAIN, CONTROL = "bank", "bank-again", "control"


class Inside(Branch):
    """A bank whose members and customers come in past the authorizer."""

    @property
    def connection(self) -> dict[str, Any]:
        return {"bootstrap.servers": self.cluster.lab_bootstrap}

    @contextmanager
    def reading(self) -> Iterator[ReadClient]:
        options = ConnectionOptions(bootstrap_server=self.cluster.lab_bootstrap)
        with ReadAccess(connection_settings(options)).reading() as client:
            yield client


def on(name: str, *operations: Operation) -> list[Acl]:
    return [Acl(OPERATOR, operation, Resource.TOPIC, name) for operation in operations]


def on_groups(name: str, *operations: Operation) -> list[Acl]:
    return [Acl(OPERATOR, operation, Resource.GROUP, name) for operation in operations]


READS = (Operation.READ, Operation.DESCRIBE_CONFIGS)
GROUP = f"bank-of-{BANK}"
FINISH = [*on(BANK, *READS), *on(CONTROL, Operation.READ), *on_groups(GROUP, Operation.DESCRIBE)]
MARKERS = [*on(BANK, Operation.WRITE), *on(CONTROL, Operation.CREATE, Operation.WRITE)]
TAKE = [*FINISH, *MARKERS]
RESTORE = [
    *on(AGAIN, *READS, Operation.CREATE, Operation.WRITE, Operation.ALTER_CONFIGS),
    *on(CONTROL, Operation.CREATE, Operation.READ, Operation.WRITE),
    *on_groups(GROUP, Operation.READ),
    # Of its own groups and transactions, which have names that nobody knows before.
    *on_groups("*", Operation.READ, Operation.DELETE),
    Acl(OPERATOR, Operation.WRITE, Resource.TRANSACTIONAL_ID, "*"),
]


@dataclass(frozen=True)
class Guarded:
    """A bank behind an authorizer, and its operator."""

    bank: Branch
    config: Path
    folder: Path

    def allowed(self, acls: Sequence[Acl]) -> AbstractContextManager[None]:
        """Let the operator do what *acls* say, and nothing else."""
        return granted(self.bank.cluster, *acls)

    def run(self, command: str, *arguments: str) -> Ended:
        servers = ("--bootstrap-server", self.bank.cluster.bootstrap_servers)
        secured = ("--command-config", self.config)
        store = ("--store", str(self.folder / "store"), "--control-topic", CONTROL)
        return breakglass("checkpoint", command, *store, *servers, *secured, *arguments)

    def take(self, *more: str) -> Ended:
        phrase = f"write {self.bank.partitions} markers"
        if "--hold-retention" in more:
            phrase += f" and hold retention of {BANK}"
        return self.run("take", *self.of_bank, "--consent", phrase, *more)

    def explain(self) -> Ended:
        servers = ("--bootstrap-server", self.bank.cluster.bootstrap_servers)
        of_bank = (*self.of_bank, "--control-topic", CONTROL)
        return breakglass(
            "checkpoint", "explain", *servers, "--command-config", self.config, *of_bank, "--json"
        )

    @property
    def of_bank(self) -> tuple[str, ...]:
        group = f"{self.bank.group}=exactly-once"
        return ("--topics", BANK, "--group", group)


@pytest.fixture(scope="module")
def guarded(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Guarded]:
    folder = tmp_path_factory.mktemp("guarded")
    pace = {"group.initial.rebalance.delay.ms": "0"}
    with Cluster.up(
        folder / "lab", brokers=1, overrides=pace, secured=True, tethered=True
    ) as cluster:
        bank = Inside(cluster, BANK, Guarantee.EXACTLY_ONCE, 3, CONTROL).open()
        bank.order(10, hops=3)
        bank.settle()
        config = write_client_properties(cluster.layout, OPERATOR)
        yield Guarded(bank, config, folder)


def without(acls: Sequence[Acl], one: Acl) -> list[Acl]:
    """All but *one*; READ leaves the DESCRIBE that it includes."""
    rest = [other for other in acls if other != one]
    if one.operation is Operation.READ:
        rest.append(Acl(OPERATOR, Operation.DESCRIBE, one.resource, one.name))
    return rest


def named(acl: Acl) -> str:
    return f"{acl.operation.name} on {acl.resource.name.lower()} {acl.name}"


@pytest.mark.parametrize(
    ("command", "acls"),
    [
        ("take", TAKE),
        ("serve", TAKE),
        ("finish", FINISH),
        ("explain", FINISH),
        ("restore", RESTORE),
    ],
)
def test_what_is_tried_here_is_what_the_page_says(command: str, acls: Sequence[Acl]) -> None:
    needs = needs_of_commands()[f"checkpoint {command}"]
    topics = {acl.operation.name for acl in acls if acl.resource is Resource.TOPIC}
    groups = {acl.operation.name for acl in acls if acl.resource is Resource.GROUP}
    assert (topics, set(needs.cluster), groups) == (set(needs.topic), set(), set(needs.group))


def test_reading_is_enough_to_explain(guarded: Guarded) -> None:
    with guarded.allowed(FINISH):
        ended = guarded.explain()
    assert (ended.code, ended.document["strongest"]) == (0, "coordinated"), ended.err


def test_without_markers_reading_is_enough_for_the_job_that_reads_lineage_too(
    guarded: Guarded,
) -> None:
    writing = all_the_while(lambda: guarded.bank.put([(0, nothing())]))
    with writing, guarded.allowed(FINISH):
        ended = guarded.take("--level", "verified", "--json")
    guarded.bank.settle()
    assert ended.code == 0, ended.err


def test_retention_is_held_back_by_whoever_may_change_settings(guarded: Guarded) -> None:
    with guarded.allowed([*TAKE, *on(BANK, Operation.ALTER_CONFIGS)]):
        ended = guarded.take("--write", "--hold-retention")
    assert ended.code == 0, ended.err


def test_without_changing_settings_nothing_is_held_and_the_acl_is_named(guarded: Guarded) -> None:
    with guarded.allowed(TAKE):
        ended = guarded.take("--write", "--hold-retention")
    assert ended.code == 1
    assert f"ALTER_CONFIGS on topic {BANK}" in ended.err


@pytest.mark.parametrize(
    "acl", [acl for acl in TAKE if acl.operation is not Operation.CREATE], ids=named
)
def test_a_take_that_lacks_one_names_it(guarded: Guarded, acl: Acl) -> None:
    with guarded.allowed(without(TAKE, acl)):
        ended = guarded.take("--write")
    assert ended.code != 0
    assert named(acl) in ended.err


def test_a_take_that_may_not_make_its_control_topic_names_that(guarded: Guarded) -> None:
    other = on("no-control", Operation.READ, Operation.WRITE)
    with guarded.allowed([*TAKE, *other]):
        scope = ("--topics", BANK, "--level", "coordinated", "--control-topic", "no-control")
        group = ("--group", f"{GROUP}=exactly-once")
        ended = guarded.run("take", *scope, *group, "--write", "--consent", "write 3 markers")
    assert ended.code == 1
    assert "CREATE on topic no-control" in ended.err


def test_with_its_acls_a_checkpoint_is_finished_and_restored(guarded: Guarded) -> None:
    with guarded.allowed(TAKE):
        taken = guarded.take("--write", "--json")
    assert taken.code == 0, taken.err
    id = str(taken.document["id"])
    with guarded.allowed(FINISH):
        finished = guarded.run("finish", id)
    assert finished.code == 0, finished.err
    into = ("--map", f"{BANK}={AGAIN}", "--state", str(guarded.folder / "state"), "--write")
    with guarded.allowed(RESTORE):
        asked = guarded.run("restore", id, *into)
        assert asked.code == 3, asked.err
        phrase = asked.consent
        ended = guarded.run("restore", id, *into, "--consent", phrase)
    assert ended.code == 0, ended.err
