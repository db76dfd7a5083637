"""Compaction: what has ended goes, and the metastore stays the same."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.errors import MalformedInput, Refused, StorageError
from breakglass.services.metastore import compaction
from breakglass.services.metastore.compaction import compact, write_compacted
from breakglass.services.metastore.lines import CommandRecord
from breakglass.services.metastore.log.reader import Replay
from breakglass.services.metastore.restore.source import Skips, read_source
from tests.unit.metastore.generating import Generator
from tests.unit.metastore.test_live_backup import back_up


def digest_of(records: tuple[CommandRecord, ...] | list[CommandRecord]) -> str:
    replay = Replay()
    assert all(map(replay.take, records))
    return replay.metastore.digest


@pytest.mark.parametrize("seed", range(2))
def test_what_is_left_becomes_the_same_metastore(seed: int) -> None:
    """An ended query keeps the stream that it made."""
    records = Generator(seed).records(300, gaps=True)
    told = compact(records)
    assert len(told.records) < len(records)
    assert digest_of(told.records) == digest_of(records) == told.digest
    by_offset = {record.offset: record for record in records}
    for record in told.records:
        same = by_offset[record.offset]
        assert (record.key, record.timestamp_ms) == (same.key, same.timestamp_ms)
        assert record.value == same.value or record.offset in told.stripped
        if record.offset in told.stripped:
            plan = json.loads(record.value or b"")["plan"]
            assert plan["queryPlan"] is None
            assert plan["ddlCommand"]["@type"].startswith("create")
    assert len(compact(told.records).records) <= len(told.records)


def test_nothing_is_left_out_of_what_cannot_be_replayed() -> None:
    bad = CommandRecord(99, b'"stream/`A`/create"', b'{"statement":"x","version":99}')
    with pytest.raises(MalformedInput, match="at offset 99"):
        compact([*Generator(1).records(5), bad])


def test_what_would_not_become_the_same_metastore_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    records = Generator(1).records(20)
    monkeypatch.setattr(compaction, "_needless", lambda *_: range(len(records) - 1))
    with pytest.raises(StorageError):
        compact(records)


def test_a_query_without_a_plan_stays_with_what_ended_it() -> None:
    texts = (
        "CREATE STREAM I (ID INT KEY) WITH (KAFKA_TOPIC='t', FORMAT='JSON');",
        "CREATE STREAM A AS SELECT * FROM I;",
        "TERMINATE CSAS_A_1;",
        "PAUSE ALL;",
    )
    keys = ("stream/`I`/create", "stream/`A`/create", "terminate/CSAS_A_1/execute")
    records = [
        CommandRecord(number, json.dumps(key).encode(), json.dumps({"statement": text}).encode())
        for number, (key, text) in enumerate(zip((*keys, "pause/ALL/execute"), texts, strict=True))
    ]
    assert compact(records).records == tuple(records)


def test_a_file_where_the_folder_is_to_be_is_an_error_with_a_remedy(tmp_path: Path) -> None:
    back_up(tmp_path / "live", Generator(4).records(5))
    (file,) = (tmp_path / "live").glob("*.bak")
    source = read_source(file, Skips())
    with pytest.raises(StorageError):
        write_compacted(source, compact(source.records), file)


def test_a_compaction_that_ends_anywhere_leaves_nothing_or_all_of_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The beginning of a smaller backup would be restored as if it were the whole."""
    records = Generator(4).records(40, gaps=True)
    back_up(tmp_path / "live", records)
    (file,) = (tmp_path / "live").glob("*.bak")
    held = file.read_bytes()
    source = read_source(file, Skips())
    told = compact(source.records)
    wanted, seen = tmp_path / "small", []

    def look() -> None:
        seen.append([read_source(path, Skips()).records for path in wanted.glob("*.bak")])

    def ended(call: Callable[..., Any]) -> Callable[..., Any]:
        def watched(*given: Any, **named: Any) -> Any:
            look()
            result = call(*given, **named)
            look()
            return result

        return watched

    with monkeypatch.context() as patched:
        for owner, name in ((os, "pwrite"), (os, "fsync"), (Path, "rename"), (Path, "replace")):
            patched.setattr(owner, name, ended(getattr(owner, name)))
        write_compacted(source, told, wanted)
    assert len(seen) > 10
    assert all(group in ([], [told.records]) for group in seen)
    assert seen[-1] == [told.records]
    assert file.read_bytes() == held
    with pytest.raises(Refused):
        write_compacted(source, told, wanted)
    file.with_name(file.name + ".side").unlink()
    with pytest.raises(Refused):
        write_compacted(read_source(file, Skips(), only_read=True), told, tmp_path / "other")
