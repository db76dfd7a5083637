"""Commands from ksqlDB's documented grammar, as many as are asked for, each valid after the last.

Names hold ':', '/', quotes, blanks and Unicode; statements hold line ends and escapes. The model
behind them is the tests' own: what exists, who reads and writes what, which id a query has.
"""

import json
import random
from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from breakglass.services.metastore.command import CommandAction, CommandId, EntityType
from breakglass.services.metastore.lines import CommandRecord

HARD = (
    "A:B",
    "x/y",
    'sa"id',
    "o'clock",
    "tab\tname",
    "naïve",
    "日本語",
    "emoji😀",
    "line\u2028sep",
    "next\u0085line",
    "back\\slash",
    "two words",
    "a``b",
    "{json}",
    "comma,colon:",
)
"""Names that only a quoted identifier can have."""

TYPES = ("INT", "BIGINT", "STRING", "DOUBLE", "BOOLEAN", "ARRAY<INT>", "MAP<STRING, INT>")
UNSUPPORTED = ("BOOLEAN", "ARRAY<INT>", "MAP<STRING, INT>")
"""The types that the formats KAFKA and DELIMITED do not support both."""
START_MS = 1_593_540_976_000


@dataclass
class Source:
    kind: EntityType
    topic: str


@dataclass
class Query:
    sources: tuple[str, ...]
    sink: str
    paused: bool = False


@dataclass
class Model:
    """What a service would hold."""

    sources: dict[str, Source] = field(default_factory=dict)
    types: dict[str, str] = field(default_factory=dict)
    queries: dict[str, Query] = field(default_factory=dict)
    creators: dict[str, str] = field(default_factory=dict)
    """The query of CREATE ... AS SELECT that writes a source."""
    uses: Counter[str] = field(default_factory=Counter)
    """How many queries read a source, or insert into it."""

    def begin(self, query: str, source: str, sink: str, *, creates: bool) -> None:
        self.queries[query] = Query((source,), sink)
        self.uses[source] += 1
        if creates:
            self.creators[sink] = query
        else:
            self.uses[sink] += 1

    def end(self, query: str) -> None:
        ended = self.queries.pop(query)
        for source in ended.sources:
            self.uses[source] -= 1
        if self.creators.get(ended.sink) == query:
            del self.creators[ended.sink]
        else:
            self.uses[ended.sink] -= 1

    def droppable(self) -> list[str]:
        """Sources that no query reads or inserts into; the one that made it ends with it."""
        return [name for name in self.sources if not self.uses[name]]


@dataclass
class Generator:
    """Makes the commands of one service."""

    seed: int = 0
    plain: bool = False
    """Only names without ':' and '/', as the KLIP's console producer and ksqlDB itself need."""
    model: Model = field(default_factory=Model)
    offset: int = -1
    """Of the last record."""

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.count = 0

    def records(self, count: int, *, gaps: bool = False) -> list[CommandRecord]:
        """The next *count* commands; with *gaps* between their offsets, as transactions leave."""
        return [self.record(gaps=gaps) for _ in range(count)]

    def record(self, *, gaps: bool = False) -> CommandRecord:
        self.offset += 1 + (self.random.choice((0, 1, 1, 1, 2, 5)) if gaps else 0)
        self.count += 1
        makers = [self._create_source] * 4 + [self._create_type]
        if self.model.sources:
            makers += [self._create_as] * 4 + [self._insert_into] * 2 + [self._alter]
        if self.model.queries:
            makers += [self._terminate, self._pause, self._resume]
        if any(not self.model.uses[name] for name in self.model.sources):
            makers += [self._drop] * 3
        if self.model.types:
            makers += [self._drop_type]
        key, value = self.random.choice(makers)()
        # JSON as Jackson writes it.
        return CommandRecord(
            self.offset,
            key.to_json(),
            json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode(),
            START_MS + 10 * self.offset,
        )

    def _name(self) -> str:
        base = f"S{self.count}"
        if self.random.random() < 0.4:
            return base
        hard = self.random.choice(HARD)
        if self.plain and (":" in hard or "/" in hard):
            return base
        return f"{hard}_{self.count}"

    def _create_source(self) -> tuple[CommandId, dict[str, Any]]:
        name, topic = self._name(), f"topic-{self.random.randrange(50)}"
        table = self.random.random() < 0.3
        kind = EntityType.TABLE if table else EntityType.STREAM
        word = "TABLE" if table else "STREAM"
        key = "ID INT PRIMARY KEY" if table else "ID INT KEY"
        kind_of_value = self.random.choice(TYPES)
        form = self.random.choice(("JSON", "AVRO", "DELIMITED", "PROTOBUF", "KAFKA", "JSON_SR"))
        if form in ("KAFKA", "DELIMITED") and kind_of_value in UNSUPPORTED:
            form = "JSON"
        text = (
            f"CREATE {word} {identifier(name)} ({key}, V {kind_of_value}) "
            f"WITH (KAFKA_TOPIC='{topic}', VALUE_FORMAT='{form}');"
        )
        self.model.sources[name] = Source(kind, topic)
        ddl = self._source_ddl(kind, name, topic)
        return CommandId(kind, quoted(name), CommandAction.CREATE), self._value(text, ddl)

    def _create_as(self) -> tuple[CommandId, dict[str, Any]]:
        name = self._name()
        source = self.random.choice(list(self.model.sources))
        table = self.random.random() < 0.4
        kind = EntityType.TABLE if table else EntityType.STREAM
        text = (
            f"CREATE {kind.value.upper()} {identifier(name)} AS SELECT\n  "
            + ("ID, COUNT(*) N" if table else "*")
            + f"\nFROM {identifier(source)} {identifier(source)}\n"
            + ("GROUP BY ID\n" if table else "WHERE V <> ';'\n")
            + "EMIT CHANGES;"
        )
        query = f"C{'T' if table else 'S'}AS_{name.upper()}_{self.offset}"
        self.model.sources[name] = Source(kind, name)
        self.model.begin(query, source, name, creates=True)
        ddl = self._source_ddl(kind, name, name)
        plan = self._query(query, (source,), name)
        return CommandId(kind, quoted(name), CommandAction.CREATE), self._value(text, ddl, plan)

    def _insert_into(self) -> tuple[CommandId, dict[str, Any]]:
        streams = [n for n, one in self.model.sources.items() if one.kind is EntityType.STREAM]
        if not streams:
            return self._create_source()
        sink, source = self.random.choice(streams), self.random.choice(streams)
        query = f"INSERTQUERY_{self.offset}"
        words = "INSERT INTO", identifier(sink), "SELECT * FROM", identifier(source)
        text = f"{' '.join(words)} EMIT CHANGES;"
        self.model.begin(query, source, sink, creates=False)
        key = CommandId(EntityType.STREAM, quoted(sink), CommandAction.CREATE)
        return key, self._value(text, None, self._query(query, (source,), sink))

    def _create_type(self) -> tuple[CommandId, dict[str, Any]]:
        name = f"TYPE_{self.count}"
        text = f"CREATE TYPE {name} AS STRUCT<A INT, `b:c` STRING>;"
        self.model.types[name] = "STRUCT<`A` INTEGER, `b:c` STRING>"
        ddl = {"@type": "registerTypeV1", "type": self.model.types[name], "typeName": name}
        return CommandId(EntityType.TYPE, name, CommandAction.CREATE), self._value(text, ddl)

    def _drop_type(self) -> tuple[CommandId, dict[str, Any]]:
        name = self.random.choice(list(self.model.types))
        del self.model.types[name]
        ddl = {"@type": "dropTypeV1", "typeName": name}
        return CommandId(EntityType.TYPE, name, CommandAction.DROP), self._value(
            f"DROP TYPE {name};", ddl
        )

    def _drop(self) -> tuple[CommandId, dict[str, Any]]:
        name = self.random.choice(self.model.droppable())
        kind = self.model.sources.pop(name).kind
        if name in self.model.creators:
            self.model.end(self.model.creators[name])
        text = f"DROP {kind.value.upper()} {identifier(name)};"
        ddl = {"@type": "dropSourceV1", "sourceName": name}
        return CommandId(kind, name, CommandAction.DROP), self._value(text, ddl)

    def _alter(self) -> tuple[CommandId, dict[str, Any]]:
        name = self.random.choice(list(self.model.sources))
        kind = self.model.sources[name].kind
        column = f"C{self.count}"
        text = f"ALTER {kind.value.upper()} {identifier(name)} ADD COLUMN {column} BIGINT;"
        ddl = {
            "@type": "alterSourceV1",
            "sourceName": name,
            "ksqlType": kind.value.upper(),
            "newColumns": [f"`{column}` BIGINT"],
        }
        return CommandId(kind, name, CommandAction.ALTER), self._value(text, ddl)

    def _terminate(self) -> tuple[CommandId, dict[str, Any]]:
        if self.random.random() < 0.03:
            for query in list(self.model.queries):
                self.model.end(query)
            return CommandId(EntityType.TERMINATE, "ALL", CommandAction.EXECUTE), self._value(
                "TERMINATE ALL;"
            )
        query = self.random.choice(list(self.model.queries))
        self.model.end(query)
        return self._by_id(EntityType.TERMINATE, query)

    def _pause(self, *, paused: bool = True) -> tuple[CommandId, dict[str, Any]]:
        query = self.random.choice(list(self.model.queries))
        self.model.queries[query].paused = paused
        return self._by_id(EntityType.PAUSE if paused else EntityType.RESUME, query)

    def _resume(self) -> tuple[CommandId, dict[str, Any]]:
        return self._pause(paused=False)

    def _by_id(self, kind: EntityType, query: str) -> tuple[CommandId, dict[str, Any]]:
        text = f"{kind.value.upper()} {identifier(query)};"
        return CommandId(kind, query, CommandAction.EXECUTE), self._value(text)

    def _source_ddl(self, kind: EntityType, name: str, topic: str) -> dict[str, Any]:
        return {
            "@type": "createTableV1" if kind is EntityType.TABLE else "createStreamV1",
            "sourceName": name,
            "schema": "`ID` INTEGER KEY, `V` STRING",
            "timestampColumn": None,
            "topicName": topic,
            "formats": {
                "keyFormat": {"format": "KAFKA", "properties": {}},
                "valueFormat": {"format": "JSON", "properties": {}},
            },
            "windowInfo": None,
            "orReplace": False,
            "isSource": False,
        }

    def _query(self, query: str, sources: tuple[str, ...], sink: str) -> dict[str, Any]:
        return {
            "sources": list(sources),
            "sink": sink,
            "physicalPlan": {"@type": "streamSinkV1", "properties": {"queryContext": sink}},
            "queryId": query,
            "runtimeId": None,
        }

    def _value(
        self, text: str, ddl: dict[str, Any] | None = None, query: dict[str, Any] | None = None
    ) -> dict[str, Any]:
        plan = None
        if ddl is not None or query is not None:
            plan = {
                "@type": "ksqlPlanV1",
                "statementText": text,
                "ddlCommand": ddl,
                "queryPlan": query,
            }
        return {
            "statement": text,
            "streamsProperties": {"auto.offset.reset": self.random.choice(("earliest", "latest"))},
            "originalProperties": {"ksql.service.id": "default_", "note": "a:b\n/c"},
            "plan": plan,
            "version": 18,
        }


def identifier(name: str) -> str:
    """*name* as a statement has it: in backquotes unless it is a plain one."""
    plain = name.isascii() and name.replace("_", "A").isalnum() and name == name.upper()
    return name if plain else quoted(name)


def quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"
