"""Statements as they are read, and the plans of those without a query, as ksqlDB makes them."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from breakglass.services.metastore.command import Command
from breakglass.services.metastore.log.validator import NameValidator, Planned, StatementRejected
from breakglass.services.metastore.metastore import Metastore
from breakglass.services.metastore.statements.parsing import (
    InvalidStatement,
    StatementKind,
    UnsupportedStatement,
    parse,
)
from breakglass.services.metastore.statements.plans import ddl_of, mend

TYPES = {"ADDRESS": "STRUCT<`NUMBER` INTEGER, `street` STRING>", "LOOP": "ARRAY<LOOP>"}
BLOG = (
    "CREATE STREAM CLICKSTREAM (USERID BIGINT, PAGEID STRING) "
    "WITH (TOPIC='CLICKSTREAM\u2019, VALUE_FORMAT='JSON');"
)
"""The first statement of the blog on the transactional protocol, with its quotes."""


def planned(text: str, metastore: Metastore | None = None) -> Planned:
    validator = NameValidator(lambda _: True)
    found = validator.validate(text, metastore or Metastore(types=dict(TYPES)), {})
    assert isinstance(found, Planned)
    return found


def ddl(text: str) -> Any:
    return ddl_of(parse(text), TYPES)


def test_a_stream_is_planned_with_everything_that_it_says() -> None:
    text = """
        create or replace stream `my-stream` ( -- a comment
            id INT KEY, "select" VARCHAR(255), a ADDRESS, m MAP<STRING, DECIMAL(9,2)>,
            /* nested */ l ARRAY<STRUCT<x DOUBLE, y BYTES ARRAY>>, ts STRING,
            h BYTES HEADER('trace')
        ) with (kafka_topic='t', key_format='json', value_format='protobuf_nosr',
                "TIMESTAMP"='ts', timestamp_format='yyyy-MM-dd''T''HH:mm:ssX',
                value_protobuf_nullable_representation='OPTIONAL',
                window_type='hopping', window_size='30 seconds');"""
    assert ddl(text) == {
        "@type": "createStreamV1",
        "sourceName": "my-stream",
        "schema": "`ID` INTEGER KEY, `select` STRING, `A` STRUCT<`NUMBER` INTEGER, `street` STRING>"
        ", `M` MAP<STRING, DECIMAL(9, 2)>, `L` ARRAY<STRUCT<`X` DOUBLE, `Y` ARRAY<BYTES>>>"
        ", `TS` STRING, `H` BYTES HEADER('trace')",
        "topicName": "t",
        "formats": {
            "keyFormat": {"format": "JSON"},
            "valueFormat": {
                "format": "PROTOBUF_NOSR",
                "properties": {"nullableRepresentation": "optional"},
            },
            "keyFeatures": ["UNWRAP_SINGLES"],
        },
        "timestampColumn": {"column": "TS", "format": "yyyy-MM-dd'T'HH:mm:ssX"},
        "windowInfo": {"type": "HOPPING", "size": 30.0},
        "orReplace": True,
    }


def test_a_table_and_a_type_are_planned() -> None:
    table = ddl(
        "CREATE SOURCE TABLE T (K1 STRING PRIMARY KEY, K2 BIGINT PRIMARY KEY, V INT) WITH "
        "(KAFKA_TOPIC='t', FORMAT='DELIMITED', VALUE_DELIMITER='TAB', WRAP_SINGLE_VALUE=false)"
    )
    assert table == {
        "@type": "createTableV1",
        "sourceName": "T",
        "schema": "`K1` STRING KEY, `K2` BIGINT KEY, `V` INTEGER",
        "topicName": "t",
        "formats": {
            "keyFormat": {"format": "DELIMITED"},
            "valueFormat": {"format": "DELIMITED", "properties": {"delimiter": "TAB"}},
            "valueFeatures": ["UNWRAP_SINGLES"],
        },
        "isSource": True,
    }
    assert ddl("CREATE TYPE P AS STRUCT<HOME ADDRESS, `n` INT>;") == {
        "@type": "registerTypeV1",
        "type": "STRUCT<`HOME` STRUCT<`NUMBER` INTEGER, `street` STRING>, `n` INTEGER>",
        "typeName": "P",
    }


def test_the_example_of_the_blog_passes_and_becomes_a_plan() -> None:
    mended = mend(BLOG)
    assert len(mended.notes) == 2
    assert "KAFKA_TOPIC='CLICKSTREAM', VALUE_FORMAT='JSON'" in mended.text
    found = planned(mended.text)
    assert found.executable
    command = Command.from_json(found.value)
    assert command.plan is not None
    assert command.plan.statement == mended.text
    assert command.plan.ddl is not None
    assert command.plan.ddl.body["schema"] == "`USERID` BIGINT, `PAGEID` STRING"


@pytest.mark.parametrize(
    "text",
    [
        "CREATE STREAM A (ID INT KEY) WITH (KAFKA_TOPIC='it\u2019s', FORMAT='JSON');",
        "CREATE STREAM A (ID INT) WITH (KAFKA_TOPIC='a', TOPIC='b', FORMAT='JSON');",
        "DROP STREAM \u2019A\u2019 B;",
        "not a \u2018statement\u2019",
    ],
)
def test_what_is_no_slip_of_a_page_stays_as_it_is(text: str) -> None:
    assert mend(text) == (text, ())


GOOD = "CREATE STREAM A (ID INT KEY, V INT) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON'"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("CREATE STREAM A (ID INTT) WITH (KAFKA_TOPIC='t', FORMAT='JSON')", "unknown type: INTT"),
        ("CREATE STREAM A (ID LOOP) WITH (KAFKA_TOPIC='t', FORMAT='JSON')", "64 deep"),
        ("CREATE STREAM A (ID DECIMAL(2,3)) WITH (KAFKA_TOPIC='t', FORMAT='JSON')", "precision"),
        ("CREATE STREAM A (ID ARRAY<INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON')", "> is expected"),
        ("CREATE STREAM A (S STRUCT<a INT, a INT>) WITH (KAFKA_TOPIC='t')", "Duplicate field"),
        ("CREATE STREAM A (SELECT INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON')", "a keyword"),
        ("CREATE STREAM A (ID INT,) WITH (KAFKA_TOPIC='t', FORMAT='JSON')", "ends too early"),
        ("CREATE STREAM A (ID INT NOT NULL) WITH (KAFKA_TOPIC='t')", ", is expected before 'NOT'"),
        ("CREATE STREAM A (ROWTIME INT) WITH (KAFKA_TOPIC='t')", "reserved column name"),
        ("CREATE STREAM A (H STRING HEADER('x')) WITH (KAFKA_TOPIC='t')", "have the type BYTES"),
        ("CREATE STREAM A (H BYTES HEADERS) WITH (KAFKA_TOPIC='t')", "ARRAY<STRUCT<`KEY` STRING"),
        ("CREATE STREAM A (ID INT PRIMARY KEY) WITH (KAFKA_TOPIC='t')", "use KEY"),
        ("CREATE TABLE A (ID INT KEY) WITH (KAFKA_TOPIC='t')", "needs a PRIMARY KEY"),
        (f"{GOOD}, PARTITION=2)", "Invalid config variable in the WITH clause: PARTITION"),
        (f"{GOOD}, PARTITIONS='many')", "not a value of type INT"),
        (f"{GOOD}, REPLICAS=70000)", "not a value of type SHORT"),
        (f"{GOOD}, KAFKA_TOPIC='u')", "set twice"),
        (f"{GOOD}, TIMESTAMP=5)", "not a value of type STRING"),
        (f"{GOOD}, TIMESTAMP='W')", "does not exist in the schema"),
        (f"{GOOD}, TIMESTAMP='V')", "a BIGINT, a TIMESTAMP or a STRING"),
        (f"{GOOD}, KEY_FORMAT='XML')", "Unknown format: XML"),
        (f"{GOOD}, FORMAT='JSON')", "cannot be supplied with FORMAT"),
        (f"{GOOD}, VALUE_DELIMITER='ab')", "single character"),
        (f"{GOOD}, VALUE_DELIMITER='|')", "JSON does not support"),
        (f"{GOOD}, WINDOW_TYPE='TUMBLING')", "require WINDOW_SIZE"),
        (f"{GOOD}, WINDOW_TYPE='TUMBLING', WINDOW_SIZE='5 minuets')", "Invalid duration"),
        (f"{GOOD}, WINDOW_TYPE='SESSION', WINDOW_SIZE='5 MINUTES')", "SESSION windows"),
        (f"{GOOD}, VALUE_PROTOBUF_NULLABLE_REPRESENTATION='WRAPPER')", "protobuf format"),
        ("CREATE STREAM A (K ARRAY<INT> KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON')", "ARRAY"),
        ("CREATE STREAM A (K INT KEY, V INT) WITH (KAFKA_TOPIC='t', FORMAT='NONE')", "no columns"),
        ("CREATE STREAM A (V MAP<INT, INT>) WITH (KAFKA_TOPIC='t', FORMAT='JSON')", "STRING keys"),
        ("CREATE TYPE A AS ARRAY<NOPE>;", "unknown type: NOPE"),
    ],
)
def test_what_ksqldb_refuses_is_refused_and_names_the_reason(text: str, told: str) -> None:
    with pytest.raises(StatementRejected) as error:
        planned(text)
    assert told in str(error.value)


@pytest.mark.parametrize(
    ("text", "why"),
    [
        (f"{GOOD}, PARTITIONS=3)", "PARTITIONS makes or checks a topic"),
        (f"{GOOD}, KEY_FORMAT='AVRO')", "AVRO has its schema registered"),
        ("CREATE STREAM A AS SELECT * FROM B;", "its query needs a plan"),
        ("ALTER STREAM B ADD COLUMN C INT;", "checks and registers the schema"),
        ("CREATE OR REPLACE STREAM B (ID INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON');", "replaces"),
    ],
)
def test_what_more_than_a_plan_is_needed_for_needs_a_server(text: str, why: str) -> None:
    metastore = Metastore(types=dict(TYPES))
    made = planned("CREATE STREAM B (ID INT) WITH (KAFKA_TOPIC='t', FORMAT='JSON');", metastore)
    metastore.apply(3, made.id, Command.from_json(made.value))
    found = planned(text, metastore)
    assert not found.executable
    assert why in found.needs_server
    assert json.loads(found.value)["plan"] is None
    writing = NameValidator(lambda _: True, executable_only=True)
    with pytest.raises(StatementRejected):
        writing.validate(text, metastore, {})


@pytest.mark.parametrize(
    ("versions", "written"), [((), 1), ((None,), None), ((None, 11, 9), 11), ((18,), 18)]
)
def test_m13_a_command_has_the_newest_version_that_its_servers_wrote(
    versions: tuple[int | None, ...], written: int | None
) -> None:
    """A server ends at a command of a version above its own."""
    metastore = Metastore()
    made = planned("CREATE TYPE X AS INT;")
    for offset, version in enumerate(versions):
        command = Command.from_json(made.value)._replace(version=version)
        metastore.apply(offset, made.id, command)
    digest = metastore.digest
    again = planned("CREATE TYPE Y AS ARRAY<INT>;", metastore)
    assert json.loads(again.value).get("version") == written
    assert metastore.digest == digest


@given(st.text(alphabet=" `'\"()<>,=aAb1.-\nINT KEY WITH STRUCT MAP", max_size=60))
def test_any_columns_and_settings_are_planned_or_refused(text: str) -> None:
    for whole in (
        f"CREATE STREAM S ({text}) WITH (KAFKA_TOPIC='t', FORMAT='JSON')",
        f"{GOOD},{text})",
    ):
        try:
            made = ddl(whole)
        except InvalidStatement:
            continue
        assert made["sourceName"] in ("S", "A")


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
        *("SELECT * FROM a;", "TERMINATE CLUSTER;", "INSERT INTO a VALUES (1);", "SET 'a'='b';"),
        *("DROP STREAM a DELETE TOPIC;", "CREATE SOURCE CONNECTOR a WITH (x='y');"),
        *("DROP CONNECTOR a;", "ALTER SYSTEM 'a'='b';"),
    ],
)
def test_another_statement_is_refused(text: str) -> None:
    with pytest.raises(UnsupportedStatement):
        parse(text)


@pytest.mark.parametrize(
    "text",
    [
        *("", ";", "CREATE STREAM", "CREATE STREAM 'a' (ID INT);", "CREATE STREAM a (ID INT"),
        *("DROP STREAM a; DROP STREAM b;", "DROP STREAM a b;", "DROP STREAM `a;"),
        *("CREATE STREAM a AS DROP STREAM b;", "CREATE STREAM a AS SELECT 1;"),
        *("ALTER STREAM a DROP b;", "CREATE STREAM a WITH (x);"),
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
