"""The built-in validator: what ksqlDB would say of names, duplicates, dependencies and topics."""

import pytest

from breakglass.services.metastore.command import Command
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.validator import (
    NameValidator,
    NothingToDo,
    Planned,
    StatementRejected,
    inconsistencies,
)
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.model import Unknown
from tests.unit.metastore.test_metastore import INPUT, planless


@pytest.fixture
def held() -> Metastore:
    """A stream, one made of it, a table, a type, and a query that inserts."""
    return planless(
        INPUT,
        "CREATE STREAM A AS SELECT * FROM INPUT;",
        "CREATE TABLE T (ID INT PRIMARY KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');",
        "CREATE TYPE P AS STRUCT<X INT>;",
        "CREATE STREAM B (ID INT KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');",
        "INSERT INTO B SELECT * FROM INPUT;",
        "CREATE SOURCE STREAM R (ID INT KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');",
    ).metastore


def validate(text: str, held: Metastore) -> Planned | NothingToDo:
    validator = NameValidator(lambda topic: Unknown("no answer") if topic == "?" else topic == "t")
    return validator.validate(text, held, {})


WITH = "WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON')"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"CREATE STREAM A (ID INT KEY) {WITH};", "A stream with the same name already exists"),
        (f"CREATE OR REPLACE TABLE A (ID INT PRIMARY KEY) {WITH};", "with the same name"),
        ("CREATE STREAM C (ID INT KEY) WITH (KAFKA_TOPIC='u', FORMAT='JSON');", "not exist: u"),
        ("CREATE STREAM C (ID INT KEY) WITH (KAFKA_TOPIC='?', FORMAT='JSON');", "is unknown"),
        ("CREATE STREAM C (ID INT KEY) WITH (FORMAT='JSON');", "property KAFKA_TOPIC"),
        ("CREATE STREAM C (ID INT KEY) WITH (KAFKA_TOPIC='t');", "property VALUE_FORMAT"),
        (f"CREATE STREAM C {WITH};", "schema registry"),
        (f"CREATE STREAM C (ID INT KEY, ID INT) {WITH};", "Duplicate column"),
        (f"CREATE TABLE C (ID INT) {WITH};", "needs a PRIMARY KEY"),
        ("CREATE STREAM C AS SELECT * FROM NONE;", "NONE does not exist"),
        ("INSERT INTO NONE SELECT * FROM A;", "NONE does not exist"),
        ("INSERT INTO T SELECT * FROM A;", "T is a table"),
        ("INSERT INTO R SELECT * FROM A;", "read-only stream: R"),
        ("DROP STREAM NONE;", "Source NONE does not exist"),
        ("DROP TABLE A;", "Incompatible data source type is stream"),
        ("DROP STREAM INPUT;", "read from this source: [CSAS_A_1, INSERTQUERY_9]"),
        ("DROP STREAM B;", "write into this source: [INSERTQUERY_9]"),
        ("ALTER STREAM A ADD C INT;", "not supported for CREATE ... AS"),
        ("ALTER STREAM B ADD ID INT;", "already"),
        ("CREATE TYPE P AS INT;", "is already registered with type"),
        ("DROP TYPE Q;", "Type Q does not exist"),
        ("TERMINATE Q;", "unknown query id Q"),
        ("TERMINATE CLUSTER;", "TERMINATE CLUSTER"),
        ("nonsense", "NONSENSE"),
    ],
)
def test_a_statement_that_may_not_become_a_command_is_refused(
    text: str, told: str, held: Metastore
) -> None:
    before = held.digest
    with pytest.raises(StatementRejected) as error:
        validate(text, held)
    assert told in str(error.value)
    assert held.digest == before


@pytest.mark.parametrize(
    ("text", "query", "executable"),
    [
        (f"CREATE OR REPLACE STREAM B (ID INT KEY) {WITH};", None, False),
        ("CREATE STREAM C AS SELECT * FROM A;", "CSAS_C_13", False),
        ("INSERT INTO B SELECT * FROM A;", "INSERTQUERY_13", False),
        ("INSERT INTO B WITH (QUERY_ID='mine') SELECT * FROM A;", "MINE", False),
        ("DROP STREAM A;", None, True),
        ("DROP TYPE P;", None, True),
        ("ALTER STREAM B ADD C INT;", None, False),
        ("PAUSE CSAS_A_1;", None, True),
        ("TERMINATE ALL;", None, True),
    ],
)
def test_a_statement_that_may_is_applied_as_it_was_planned(
    text: str, query: str | None, executable: bool, held: Metastore
) -> None:
    planned = validate(text, held)
    assert isinstance(planned, Planned)
    assert (planned.query_id, planned.executable) == (query, executable)
    after = held.snapshot()
    after.apply(20, planned.id, Command.from_json(planned.value))
    assert after.digest != held.digest
    assert query is None or query in after.queries


@pytest.mark.parametrize(
    "text", [f"CREATE STREAM IF NOT EXISTS A (ID INT KEY) {WITH};", "DROP STREAM IF EXISTS NONE;"]
)
def test_a_statement_that_asks_whether_it_is_needed_writes_nothing(
    text: str, held: Metastore
) -> None:
    assert isinstance(validate(text, held), NothingToDo)


def test_nothing_follows_the_end_of_the_cluster() -> None:
    replay = planless(INPUT)
    end = CommandRecord(9, b'"cluster/TerminateCluster/terminate"', b'{"statement":"x"}')
    assert replay.take(end)
    with pytest.raises(StatementRejected, match="terminated"):
        validate(f"CREATE STREAM C (ID INT KEY) {WITH};", replay.metastore)


def test_a_topic_that_is_gone_is_told_of_each_object_and_changes_nothing(held: Metastore) -> None:
    """The blog's second wish; PAGEVIEWS_COPY stays, and is told of as well."""
    before = held.digest
    told = inconsistencies(held, lambda topic: topic == "A")
    assert "topic t " in told["INPUT"]
    assert "CSAS_A_1" in told["A"]
    assert held.digest == before
    unknown = inconsistencies(held, lambda _: Unknown("no answer"))
    assert "is unknown (no answer)" in unknown["T"]
