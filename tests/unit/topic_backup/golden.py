"""The golden directories and what was recorded of them (see PROVENANCE.md beside them)."""

import json
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

from breakglass.services.record_batches import Record, TimestampType

GOLDEN = Path(__file__).parents[2] / "golden" / "topic_backup"
CASES = sorted(path.stem for path in (GOLDEN / "expected").glob("*.json"))
WHOLE = [case for case in CASES if case not in ("torn_records_tail", "unindexed_record_tail")]


@dataclass(frozen=True)
class GoldenPartition:
    """One partition of a case, as the original's classes saw it."""

    case: str
    topic: str
    partition: int
    max_segment_bytes: int
    partition_index: tuple[tuple[str, int], ...]
    segments: dict[str, list[tuple[int, int, int]]]
    """Index entries by prefix."""
    records: tuple[Record, ...]
    raw_records: list[dict[str, Any]]
    """As recorded: bytes in hex."""

    @property
    def folder(self) -> Path:
        return GOLDEN / self.case / self.topic

    def __str__(self) -> str:
        return f"{self.case}-{self.topic[:12]}-{self.partition}"


@cache
def expected(case: str) -> dict[str, Any]:
    """Everything recorded of *case*."""
    loaded: dict[str, Any] = json.loads((GOLDEN / "expected" / f"{case}.json").read_bytes())
    return loaded


def partitions(*cases: str) -> list[GoldenPartition]:
    """The partitions of *cases*."""
    return [_partition(case, raw) for case in cases for raw in expected(case)["partitions"]]


def _partition(case: str, raw: dict[str, Any]) -> GoldenPartition:
    return GoldenPartition(
        case=case,
        topic=raw["topic"],
        partition=raw["partition"],
        max_segment_bytes=raw["max_segment_size_bytes"],
        partition_index=tuple((prefix, start) for prefix, start in raw["partition_index"]),
        segments={
            one["file_prefix"]: [(offset, at, size) for offset, at, size in one["index"]]
            for one in raw["segments"]
        },
        records=tuple(
            Record(
                offset=one["offset"],
                timestamp_type=TimestampType(one["on_disk_type_int"]),
                timestamp=one["timestamp"],
                key=_bytes(one["key"]),
                value=_bytes(one["value"]),
                headers=tuple((bytes.fromhex(key), _bytes(value)) for key, value in one["headers"]),
            )
            for one in raw["records"]
        ),
        raw_records=raw["records"],
    )


def _bytes(text: str | None) -> bytes | None:
    return None if text is None else bytes.fromhex(text)
