"""The metastore as it is rebuilt from commands: the same every time, whatever they are."""

import json
import re
from pathlib import Path

import pytest

from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.reader import Degradation, Replay
from tests.unit.metastore.generating import Generator

INPUT = "CREATE STREAM INPUT (ID INT KEY) WITH (KAFKA_TOPIC='t', VALUE_FORMAT='JSON');"


def planless(*statements: str) -> Replay:
    """The replay of commands that have no plans, a marker after each."""
    replay = Replay()
    for number, text in enumerate(statements):
        value = json.dumps({"statement": text}).encode()
        key = b'"cluster/x/alter"' if text.startswith("ALTER SYSTEM") else b'"stream/X/create"'
        assert replay.take(CommandRecord(2 * number, key, value)), replay.degraded
    return replay


@pytest.mark.parametrize("seed", range(2))
def test_hundreds_of_commands_become_what_the_model_holds(seed: int) -> None:
    generator, replay, again = Generator(seed), Replay(), Replay()
    for record in generator.records(400, gaps=bool(seed % 2)):
        assert replay.take(record)
        assert again.take(record)
    held, model = replay.metastore, generator.model
    assert {name: one.kind for name, one in held.sources.items()} == {
        name: one.kind for name, one in model.sources.items()
    }
    assert held.types == model.types
    assert {key: (one.sources, one.sink, one.paused) for key, one in held.queries.items()} == {
        key: (one.sources, one.sink, one.paused) for key, one in model.queries.items()
    }
    assert replay.metastore.digest == again.metastore.digest


def test_query_ids_are_one_past_the_last_command_that_changed_objects() -> None:
    """So they survive a restore only where offsets do (M3)."""
    held = planless(
        INPUT,
        "CREATE TABLE Out AS SELECT ID, COUNT(*) N FROM INPUT GROUP BY ID;",
        "PAUSE CTAS_OUT_1;",
        "INSERT INTO INPUT SELECT * FROM INPUT i WHERE i.ID IS NOT DISTINCT FROM 3;",
    ).metastore
    assert set(held.queries) == {"CTAS_OUT_1", "INSERTQUERY_3"}
    assert held.queries["CTAS_OUT_1"].paused
    assert held.queries["INSERTQUERY_3"].sources == ("INPUT",)


def test_replacing_keeps_the_query_id() -> None:
    text = "CREATE OR REPLACE STREAM A AS SELECT * FROM INPUT{};"
    held = planless(INPUT, text.format(""), text.format(" WHERE ID > 3")).metastore
    assert set(held.queries) == {"CSAS_A_1"}
    assert held.queries["CSAS_A_1"].offset == 4


@pytest.mark.parametrize(
    ("key", "value"),
    [
        (b"stream", b'{"statement":"x"}'),
        (b'"stream/A/create"', b'{"statement":"x","version":99}'),
        (b'"stream/A/create"', b'{"statement":"CREATE SOMETHING A;"}'),
        (b'"cluster/x/alter"', b'{"statement":"ALTER SOMETHING;"}'),
        (b'"stream/A/create"', None),
    ],
)
def test_nothing_is_skipped(key: bytes, value: bytes | None) -> None:
    """The first that cannot be applied ends the replay, and the metastore stays as it was."""
    replay = planless(INPUT)
    before = replay.metastore.digest
    assert not replay.take(CommandRecord(7, key, value))
    assert replay.degraded is not None
    assert (replay.degraded.why, replay.degraded.offset) == (Degradation.INCOMPATIBLE_COMMAND, 7)
    good = CommandRecord(8, b'"stream/INPUT/drop"', b'{"statement":"DROP STREAM INPUT;"}')
    assert not replay.take(good)
    assert replay.metastore.digest == before


PAGE = Path(__file__).parents[3] / "tests" / "lab" / "ksql" / "README.md"


def test_each_rule_is_shown_where_the_table_says() -> None:
    for rule in range(1, 15):
        # The files that each row of the rules' table links.
        rows = re.findall(r"^\| M(\d+) \|(.*)$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)
        listed = (
            {
                int(number): [
                    (PAGE.parent / link).resolve() for link in re.findall(r"\]\(([^)]+)\)", row)
                ]
                for number, row in rows
            }
        )[rule]
        assert listed
        wanted = f"def test_m{rule}_"
        assert [path.name for path in listed if wanted not in path.read_text("utf-8")] == []
