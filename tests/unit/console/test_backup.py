"""`breakglass backup`: what it prints where, and how it ends."""

import json
import shutil
from pathlib import Path

import pytest

from tests.kit.program import Ended, breakglass
from tests.unit.console.conftest import Golden
from tests.unit.console.fakes import NOBODY
from tests.unit.topic_backup.backups import RECORDS, as_the_originals, back_up, overwrite
from tests.unit.topic_backup.golden import GOLDEN
from tests.unit.topic_backup.shapes import plain, run

TORN = GOLDEN / "torn_records_tail" / "torn"


def backup(*arguments: object) -> Ended:
    return breakglass("backup", *arguments)


def offsets(printed: Ended) -> list[int]:
    return [json.loads(line)["offset"] for line in printed.out.splitlines()]


def damaged(folder: Path) -> Path:
    """A backup of five records with a byte changed in the third."""
    topic = as_the_originals(back_up(folder, run(0, 5)))
    overwrite(topic / RECORDS, 1 + 2 * 40 + 8, b"\x09")
    return topic


def test_b32_a_range_of_a_segment_that_was_changed_is_never_printed_without_a_word(
    tmp_path: Path,
) -> None:
    topic = back_up(tmp_path, run(0, 20))
    overwrite(topic / RECORDS, 1 + 10 * 40 + 33, b"V")
    result = backup("cat", f"{topic}/0", "--from", "9", "--to", "12")
    assert (result.code, offsets(result)) == (1, [9, 10, 11])
    assert "in doubt, offsets 0..19" in result.err
    assert "left out" not in result.err


@pytest.mark.parametrize(("form", "shown"), [("utf8", "�a"), ("hex", "ff61"), ("base64", "/2E=")])
def test_cat_shows_bytes_in_the_form_asked_for_and_nothing_that_a_terminal_obeys(
    tmp_path: Path, form: str, shown: str
) -> None:
    one = plain(0)._replace(key=None, value=b"\xffa", headers=((b"\xffa", None), (b"", b"")))
    topic = back_up(tmp_path, [one, plain(1, value=b"\x1b]0;owned\x07\n\xe2\x80\xae")])
    result = backup("cat", f"{topic}/0", "--bytes", form)
    assert ("1 records have bytes that are not UTF-8" in result.err) == (form == "utf8")
    first, second = result.out.splitlines()
    printed = json.loads(first)
    assert (printed["key"], printed["value"]) == (None, shown)
    assert printed["headers"] == [[shown, None], ["", ""]]
    assert second.isprintable()


def test_cat_prints_what_lies_around_damage_and_fails_and_succeeds_before_a_torn_end(
    tmp_path: Path,
) -> None:
    result = backup("cat", f"{damaged(tmp_path)}/0")
    assert (result.code, offsets(result), "2..2" in result.err) == (1, [0, 1, 3, 4], True)
    result = backup("cat", f"{TORN}/0")
    assert (result.code, len(result.out.splitlines()), len(result.said)) == (0, 5, 1)
    assert offsets(backup("cat", f"{TORN}/0", "--from", "1", "--to", "3")) == [1, 2]


def test_reindex_reports_each_segment_and_fails_where_one_is_damaged_before_its_end(
    tmp_path: Path,
) -> None:
    shutil.copytree(TORN, tmp_path / "torn")
    consent = ("--consent", "rebuild 1 index of torn")
    asked = backup("reindex", tmp_path / "torn", "--write")
    assert (asked.code, asked.said[-1]) == (3, f"consent: {consent[1]}")
    result = backup("reindex", tmp_path / "torn", "--write", "--json", *consent)
    assert result.document["schema"] == 1
    (segment,) = result.document["segments"]
    assert (segment["entries"], segment["left_out"], segment["torn"]) == (5, 10, True)
    assert result.code == 0
    table = backup("reindex", f"{tmp_path}/torn/0", "--write", *consent).out
    assert table.splitlines()[1].split()[1:3] == ["5", "10"]
    topic = damaged(tmp_path)
    assert backup("reindex", topic).code == 3
    assert backup("reindex", topic, "--write", "--consent", "rebuild 1 index of orders").code == 1


def test_prune_removes_segments_only_where_it_may_write(tmp_path: Path) -> None:
    back_up(tmp_path, run(0, 10), max_segment_bytes=1)
    before = sorted(tmp_path.rglob("*_records"))
    words = ("prune", "--store", str(tmp_path), "--keep-bytes", "0")
    listed = backup(*words, "--json").document["segments"]["orders"]
    records = sum(one["records"] for one in listed)
    consent = ("--consent", f"delete {len(listed):,} segments with {records:,} records")
    assert backup(*words, "--delete", *consent).code == 3
    assert backup(*words, "--write").said[-1] == f"consent: {consent[1]}"
    assert sorted(tmp_path.rglob("*_records")) == before
    assert backup(*words, *consent, "--write").code == 0
    assert len(sorted(tmp_path.rglob("*_records"))) == len(before) - len(listed)


def test_status_names_a_later_generation_that_kafka_backup_does_not_read(
    tmp_path: Path, golden: Golden
) -> None:
    topic = back_up(tmp_path, run(0, 10))
    shutil.copytree(topic, tmp_path / f"{topic.name}~2")
    golden(backup("status", "--store", tmp_path))
    document = backup("status", "--store", tmp_path, "--json").document
    found = [held["passed_over_by_kafka_backup"] for held in document["topics"]]
    assert found == [False, True]


def test_a_backup_needs_a_place_and_a_connector_that_restores_names_its_topics(
    tmp_path: Path,
) -> None:
    file, back = tmp_path / "backup.properties", tmp_path / "restore.properties"
    file.write_text("topics=orders\n")
    back.write_text(f"source.dir={tmp_path}\nno.such.key=1\n")
    for words, named in (
        (("run", "--topics", "orders"), "--store"),
        (("run", "--connector-config", file), "--store"),
        (("restore", "--connector-config", back), ""),
        (("restore", "--connector-config", back, "--tail-of", "plan.json"), "--connector-config"),
    ):
        ended = backup(*words, *NOBODY)
        assert (ended.code, named in ended.said[-1]) == (2, True)


def test_keys_without_effect_are_named_and_no_secret_is(tmp_path: Path) -> None:
    file = tmp_path / "restore.properties"
    file.write_text(f"source.dir={tmp_path}\nno.such.key=hunter2\nadmin.ssl.key.password=hunter2\n")
    ended = backup("restore", "--connector-config", file)
    assert "line 2: no.such.key" in ended.err
    assert "line 3: admin.ssl.key.password" in ended.err
    assert "hunter2" not in ended.out + ended.err
