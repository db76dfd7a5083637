"""`breakglass backup`: what it prints where, and how it ends."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest
from typer.testing import CliRunner, Result

from breakglass.console.backup import app
from breakglass.services.errors import BreakglassError, ConsentMissing, ReadOnly, UsageError
from tests.unit.topic_backup.backups import RECORDS, as_the_originals, back_up, overwrite
from tests.unit.topic_backup.golden import CASES, GOLDEN, GoldenPartition, partitions
from tests.unit.topic_backup.shapes import plain, run

TORN = GOLDEN / "torn_records_tail" / "torn"


def backup(*arguments: str) -> Result:
    """Run the command; an error of ours is raised as it reaches the program's one way out."""
    result = CliRunner().invoke(app, list(arguments))
    if isinstance(result.exception, BreakglassError):
        raise result.exception
    return result


@pytest.mark.parametrize("golden", partitions(*CASES), ids=str)
def test_cat_prints_every_golden_record_as_recorded(golden: GoldenPartition) -> None:
    result = backup("cat", f"{golden.folder}/{golden.partition}", "--json", "--bytes", "hex")
    # A whole record that the index does not name is told, and is no success.
    assert result.exit_code == (1 if golden.case == "unindexed_record_tail" else 0)
    printed = [json.loads(line) for line in result.stdout.splitlines()]
    recorded = [
        {name: value for name, value in raw.items() if name != "on_disk_type_int"}
        for raw in golden.raw_records
    ]
    assert printed == recorded


def test_cat_prints_a_range_that_stops_before_its_end() -> None:
    result = backup("cat", f"{TORN}/0", "--from", "1", "--to", "3")
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [1, 2]


@pytest.mark.parametrize(("form", "shown"), [("utf8", "�a"), ("hex", "ff61"), ("base64", "/2E=")])
def test_cat_shows_bytes_in_the_form_asked_for(tmp_path: Path, form: str, shown: str) -> None:
    one = plain(0)._replace(key=None, value=b"\xffa", headers=((b"\xffa", None), (b"", b"")))
    topic = back_up(tmp_path, [one])
    printed = json.loads(backup("cat", f"{topic}/0", "--bytes", form).stdout)
    assert printed["key"] is None
    assert printed["value"] == shown
    assert printed["headers"] == [[shown, None], ["", ""]]


def test_cat_prints_nothing_that_a_terminal_obeys(tmp_path: Path) -> None:
    topic = back_up(tmp_path, [plain(0, value=b"\x1b]0;owned\x07\n\xe2\x80\xae")])
    assert backup("cat", f"{topic}/0").stdout.isprintable() is False
    assert backup("cat", f"{topic}/0").stdout.rstrip("\n").isprintable()


def test_cat_tells_of_a_torn_end_on_stderr_and_succeeds() -> None:
    result = backup("cat", f"{TORN}/0")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 5)
    assert "10 bytes from byte 206 left out: behind the last indexed record" in result.stderr


def test_cat_prints_what_lies_around_damage_and_fails(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 5)))
    overwrite(topic / RECORDS, 1 + 2 * 40 + 8, b"\x09")
    result = backup("cat", f"{topic}/0")
    assert [json.loads(line)["offset"] for line in result.stdout.splitlines()] == [0, 1, 3, 4]
    assert result.exit_code == 1
    assert "offsets 2..2: no record that can be proved" in result.stderr


@pytest.mark.parametrize("source", ["nfs://far/orders/0", "orders", "absent/0"])
def test_a_source_that_cannot_be_is_a_usage_error(source: str) -> None:
    with pytest.raises(UsageError):
        backup("cat", source)


def test_reindex_reports_each_segment(tmp_path: Path) -> None:
    shutil.copytree(TORN, tmp_path / "torn")
    consent = ("--consent", "rebuild 1 index of torn")
    with pytest.raises(ConsentMissing, match="rebuild 1 index of torn"):
        backup("reindex", str(tmp_path / "torn"), "--write")
    result = backup("reindex", str(tmp_path / "torn"), "--write", "--json", *consent)
    (segment,) = json.loads(result.stdout)["segments"]
    assert (segment["entries"], segment["left_out"], segment["torn"]) == (5, 10, True)
    assert result.exit_code == 0
    table = backup("reindex", f"{tmp_path}/torn/0", "--write", *consent).stdout
    assert table.splitlines()[1].split()[1:3] == ["5", "10"]


def test_reindex_fails_where_a_segment_is_damaged_before_its_end(tmp_path: Path) -> None:
    topic = as_the_originals(back_up(tmp_path, run(0, 5)))
    overwrite(topic / RECORDS, 1 + 2 * 40 + 8, b"\x09")
    with pytest.raises(ReadOnly, match="add --write"):
        backup("reindex", str(topic))
    result = backup("reindex", str(topic), "--write", "--consent", "rebuild 1 index of orders")
    assert result.exit_code == 1
    assert "a timestamp type cannot be" in result.stdout


def test_prune_removes_segments_only_where_it_may_write(tmp_path: Path) -> None:
    back_up(tmp_path, run(0, 10), max_segment_bytes=1)
    before = sorted(tmp_path.rglob("*_records"))
    words = ("prune", "--store", str(tmp_path), "--keep-bytes", "0")
    listed = json.loads(backup(*words, "--json").stdout)["segments"]["orders"]
    records = sum(one["records"] for one in listed)
    consent = ("--consent", f"delete {len(listed):,} segments with {records:,} records")

    with pytest.raises(ReadOnly, match="add --write"):
        backup(*words, "--delete", *consent)
    with pytest.raises(ConsentMissing, match="delete"):
        backup(*words, "--write")
    assert sorted(tmp_path.rglob("*_records")) == before

    assert backup(*words, *consent, "--write").exit_code == 0
    assert len(sorted(tmp_path.rglob("*_records"))) == len(before) - len(listed)


def test_status_says_that_kafka_backup_does_not_read_a_later_generation(tmp_path: Path) -> None:
    topic = back_up(tmp_path, run(0, 10))
    shutil.copytree(topic, tmp_path / f"{topic.name}~2")
    result = backup("status", "--store", str(tmp_path))
    told = [line for line in result.stderr.splitlines() if "Kafka Backup" in line]
    assert told == [
        f"{topic.name}  Kafka Backup does not read {topic}~2: it restores only the folder named "
        f"{topic.name}, an older log of the topic. "
        "See `--new-generation` of `breakglass backup run`."
    ]
    document = json.loads(backup("status", "--store", str(tmp_path), "--json").stdout)
    found = [held["passed_over_by_kafka_backup"] for held in document["topics"]]
    assert found == [False, True]


def test_a_backup_needs_a_place(tmp_path: Path) -> None:
    file = tmp_path / "backup.properties"
    file.write_text("topics=orders\n")
    for words in (("--topics", "orders"), ("--connector-config", str(file))):
        with pytest.raises(UsageError, match="--store, or --connector-config"):
            backup("run", *words, "--bootstrap-server", "localhost:1")


def test_a_connector_that_restores_names_its_topics(tmp_path: Path) -> None:
    file = tmp_path / "restore.properties"
    file.write_text(f"source.dir={tmp_path}\nno.such.key=1\n")
    words = ("restore", "--connector-config", str(file), "--bootstrap-server", "localhost:1")
    with pytest.raises(UsageError, match="has no topics"):
        backup(*words)
    with pytest.raises(UsageError, match="leave --connector-config out"):
        backup(*words, "--tail-of", "plan.json")


def test_keys_without_effect_are_said_and_no_secret_is(tmp_path: Path) -> None:
    file = tmp_path / "restore.properties"
    file.write_text(f"source.dir={tmp_path}\nno.such.key=hunter2\nadmin.ssl.key.password=hunter2\n")
    result = CliRunner().invoke(app, ["restore", "--connector-config", str(file)])
    assert "line 2: no.such.key is not known" in result.stderr
    assert "line 3: admin.ssl.key.password has no effect here" in result.stderr
    assert "hunter2" not in result.output + str(result.exception)
