"""docs/acls.md holds for `metastore`: each ACL that is missing shows before anything is deleted."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.properties import OPERATOR
from breakglass.services.metastore.lines import CommandRecord
from tests.kit.access import Acl, Operation, Resource, grant, revoke
from tests.kit.acl_page import needs_of_commands
from tests.kit.client_properties import write_client_properties
from tests.lab.ksql.commands import Done, run
from tests.lab.ksql.topics import CommandTopic
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import back_up


@pytest.fixture(scope="module")
def secured(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Cluster]:
    folder = tmp_path_factory.mktemp("secured")
    with Cluster.up(folder, brokers=1, overrides={}, secured=True, tethered=True) as cluster:
        yield cluster


def acls_of(command: str, topic: CommandTopic) -> list[Acl]:
    """What the page says, with the transactional ids that it names below its table."""
    needs = needs_of_commands()[" ".join(command.split()[:2])]
    ids = (topic.service_id, f"{topic.service_id}-breakglass-pads")
    acls = [Acl(OPERATOR, Operation[text], Resource.TOPIC, topic.name) for text in needs.topic]
    acls += [Acl(OPERATOR, Operation[text], Resource.GROUP, "*") for text in needs.group]
    return acls + [Acl(OPERATOR, Operation.WRITE, Resource.TRANSACTIONAL_ID, id_) for id_ in ids]


def test_what_is_missing_for_a_restore_is_named_before_anything_is_deleted(
    secured: Cluster, tmp_path: Path
) -> None:
    topic = CommandTopic(secured, "guarded_")
    topic.create()
    present = topic.produce(Generator(91).records(2))
    folder = tmp_path / "backups"
    records = [record._replace(offset=2 * record.offset) for record in Generator(92).records(4)]
    back_up(folder, records)
    (file,) = folder.glob("*.bak")
    config = str(write_client_properties(secured.layout, OPERATOR))
    words: tuple[str, ...] = ("restore", str(file), "--command-config", config)
    words += ("--write", "--service-id", topic.service_id, "--consent", f"{topic.name} lose 2")

    def restored() -> Done:
        return run(secured, *words)

    acls = acls_of("ksql restore", topic)
    needed = [
        acl
        for acl in acls
        if acl.resource is Resource.TRANSACTIONAL_ID
        or acl.operation in (Operation.CREATE, Operation.DELETE, Operation.READ)
    ]
    grant(secured, *acls, Acl(OPERATOR, Operation.DESCRIBE, Resource.TOPIC, topic.name))
    for missing in needed:
        revoke(secured, missing)
        done = restored()
        assert done.code == 1, (missing, done.err)
        assert f"{missing.operation.name} on " in done.err, missing
        assert topic.read() == present, missing
        grant(secured, missing)
    done = restored()
    assert done.code == 0, done.err
    assert topic.read() == records


READERS = {
    "ksql backup": ("backup", "--store", "{folder}"),
    "ksql show": ("show",),
    "ksql show --history": ("show", "--history"),
    "ksql submit --dry-run": ("submit", "DROP STREAM IF EXISTS NOT_THERE;", "--dry-run"),
    "ksql submit": (
        "submit",
        "DROP TYPE {type};",
        "--write",
        "--consent",
        "{topic} type/{type}/drop",
    ),
}
"""Rows of the page, and how each is run; a type of its own is what `submit` drops."""


@pytest.mark.parametrize("command", READERS)
def test_a_command_needs_what_its_row_says_and_names_what_it_lacks(
    secured: Cluster, tmp_path: Path, command: str
) -> None:
    topic = CommandTopic(secured, f"reader_{command.split()[1]}_")
    topic.create()
    made = [_created(f"T{number}") for number in range(3)]
    topic.produce(made)
    config = str(write_client_properties(secured.layout, OPERATOR))
    acls = acls_of(command, topic)
    if command != "ksql submit":
        acls = [acl for acl in acls if acl.resource is not Resource.TRANSACTIONAL_ID]
    if "--dry-run" in command:
        acls = [acl for acl in acls if acl.operation is not Operation.WRITE]

    def done(number: int) -> Done:
        told = {"folder": tmp_path / str(number), "type": f"T{number}", "topic": topic.name}
        words = [reader.format(**told) for reader in READERS[command]]
        more = ("--service-id", topic.service_id, "--command-config", config)
        return run(secured, *words, *more)

    grant(secured, *acls)
    whole = done(0)
    assert whole.code == 0, whole.err
    describe = Acl(OPERATOR, Operation.DESCRIBE, Resource.TOPIC, topic.name)
    pads = f"{topic.service_id}-breakglass-pads"
    grant(secured, describe)
    for missing in [acl for acl in acls if acl.name != pads]:
        revoke(secured, missing)
        less = done(1)
        assert less.code == 1, (missing, less.err)
        assert f"{missing.operation.name} on " in less.err, (missing, less.err)
        grant(secured, missing)
    revoke(secured, describe)


def _created(name: str) -> CommandRecord:
    """CREATE TYPE with its plan."""
    plan = {
        "@type": "ksqlPlanV1",
        "statementText": f"CREATE TYPE {name} AS INT;",
        "ddlCommand": {"@type": "registerTypeV1", "type": "INTEGER", "typeName": name},
        "queryPlan": None,
    }
    value = {"statement": f"CREATE TYPE {name} AS INT;", "plan": plan, "version": 18}
    return CommandRecord(0, f'"type/{name}/create"'.encode(), json.dumps(value).encode())
