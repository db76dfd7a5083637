"""Statements as they are read: what they are about, and which are refused."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.metastore.command import Command
from breakglass.services.metastore.command_id import CommandId
from breakglass.services.metastore.statements.parsing import UnsupportedStatement, parse
from breakglass.services.metastore.statements.statement import InvalidStatement, StatementKind
from tests.unit.metastore.generating import Generator


def test_every_generated_statement_gives_the_key_that_ksqldb_writes() -> None:
    for record in Generator(5).records(1_000):
        statement = parse(Command.from_json(record.value).statement)
        assert statement.command_id == CommandId.from_json(record.key)


@pytest.mark.parametrize(
    ("text", "kind", "name"),
    [
        ("create stream a (id int key) with (kafka_topic='x')", StatementKind.CREATE_SOURCE, "A"),
        ('CREATE TABLE "a;b" AS SELECT * FROM c;', StatementKind.CREATE_AS, "a;b"),
        ("/* ; */ DROP -- it's\n STREAM IF EXISTS `x/y`;;", StatementKind.DROP_SOURCE, "x/y"),
        ("ALTER STREAM a ADD COLUMN b INT, ADD c STRUCT<d INT, e INT>;", StatementKind.ALTER, "A"),
        ("CREATE TYPE t AS ARRAY<INT>;", StatementKind.CREATE_TYPE, "T"),
        ("DROP TYPE IF EXISTS t;", StatementKind.DROP_TYPE, "T"),
        ("TERMINATE csas_a_1;", StatementKind.TERMINATE, "CSAS_A_1"),
        ("PAUSE ALL;", StatementKind.PAUSE, "ALL"),
        ("RESUME `q:1`;", StatementKind.RESUME, "q:1"),
    ],
)
def test_a_statement_is_read(text: str, kind: StatementKind, name: str) -> None:
    statement = parse(text)
    assert (statement.kind, statement.name) == (kind, name)


def test_what_a_query_reads_is_found_behind_from_and_join() -> None:
    text = (
        "CREATE STREAM x WITH (PARTITIONS=3, KAFKA_TOPIC='from y') AS SELECT 'FROM z', "
        "a.b IS DISTINCT FROM c FROM `A:B` a LEFT JOIN D WITHIN 1 HOUR ON a.i = D.i JOIN e ON 1=1;"
    )
    statement = parse(text)
    assert statement.sources == ("A:B", "D", "E")
    assert statement.topic == "from y"


@pytest.mark.parametrize(
    "text",
    [
        "SELECT * FROM a;",
        "TERMINATE CLUSTER;",
        "INSERT INTO a VALUES (1);",
        "DROP STREAM a DELETE TOPIC;",
        "CREATE SOURCE CONNECTOR a WITH (x='y');",
        "DROP CONNECTOR a;",
        "SET 'a'='b';",
        "ALTER SYSTEM 'a'='b';",
    ],
)
def test_another_statement_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedStatement):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        "",
        ";",
        "CREATE STREAM",
        "CREATE STREAM 'a' (ID INT);",
        "CREATE STREAM a (ID INT",
        "DROP STREAM a; DROP STREAM b;",
        "DROP STREAM a b;",
        "DROP STREAM `a;",
        "CREATE STREAM a AS DROP STREAM b;",
        "CREATE STREAM a AS SELECT 1;",
        "ALTER STREAM a DROP b;",
        "CREATE STREAM a WITH (x);",
    ],
)
def test_what_is_no_statement_is_refused(text: str) -> None:
    with pytest.raises(InvalidStatement):
        parse(text)


@given(st.text(alphabet=" ;'`\"()<>,=ab1-*/\nCREATE STREAM FROM", max_size=60))
def test_any_text_is_read_or_refused(text: str) -> None:
    for begin in ("", "CREATE STREAM a ", "CREATE STREAM a AS SELECT ", "DROP "):
        try:
            parse(begin + text)
        except InvalidStatement:
            continue
