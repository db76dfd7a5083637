"""`breakglass quorum inspect`: what it prints, how it ends, what it refuses."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.kit.metadata_log import MetadataLog, record, topic
from tests.kit.program import Ended, breakglass
from tests.unit.quorum.clusters import LEDGER, ORDERS, small_log


def inspect(folder: Path, *more: object, **logs: MetadataLog) -> Ended:
    """Inspect *logs*, each saved in a folder of its name."""
    for number, (name, log) in enumerate(logs.items(), 101):
        log.save(folder / name, number)
    return breakglass("quorum", "inspect", *(f"log:{folder / name}" for name in logs), *more)


def longer(log: MetadataLog) -> MetadataLog:
    """The same log with a new topic."""
    grown = log.fork()
    grown.add(*topic("ledger", LEDGER, (1, 2)))
    return grown


def test_q01_copies_that_are_prefixes_end_with_0(tmp_path: Path) -> None:
    log = small_log()
    ended = inspect(tmp_path, a=log, b=longer(log))
    assert ended.code == 0
    assert f"The best copy is {tmp_path}/b/__cluster_metadata-0" in ended.out
    assert "ledger (1 partition, id" in ended.out
    assert sum("high watermark" in line for line in ended.said) == 1


def test_a_chosen_copy_that_lacks_records_ends_with_1(tmp_path: Path) -> None:
    log = small_log()
    ended = inspect(tmp_path, "--copy", f"log:{tmp_path}/a", a=log, b=longer(log))
    assert ended.code == 1
    best = inspect(tmp_path, "--copy", f"log:{tmp_path}/b", a=log, b=longer(log))
    assert best.code == 0


def test_q01_a_fork_ends_with_1_and_shows_both_sides(tmp_path: Path) -> None:
    log = small_log()
    mine, its = log.fork(), longer(log)
    mine.add(record("RemoveTopicRecord", topic_id=ORDERS))
    ended = inspect(tmp_path, "--json", a=mine, b=its)
    assert ended.code == 1
    best, other = ended.document["copies"]
    assert (best["relation"], other["relation"]) == ("best", "fork")
    assert other["fork"]["offset"] == log.offset
    assert other["fork"]["best"]["crc"] != other["fork"]["copy"]["crc"]
    (lack,) = ended.document["lacks"]
    assert [one["kind"] for one in lack["changes"]] == ["topics created"]
    assert "topics deleted" in [one["kind"] for one in lack["own"]]


def test_q08_damage_ends_with_1_and_is_named(tmp_path: Path) -> None:
    log = small_log()
    torn = log.fork()
    torn.batches[-1] = torn.batches[-1][:-1]
    ended = inspect(tmp_path, a=log, b=torn)
    assert ended.code == 1
    assert f"{tmp_path}/b/__cluster_metadata-0 is damaged: {0:020}.log" in ended.out


def test_q03_a_record_that_is_not_decoded_ends_with_1_and_is_named(tmp_path: Path) -> None:
    log = small_log()
    strange = log.fork()
    at = strange.add((None, b"\x01\x7f\x03later"))
    ended = inspect(tmp_path, "--json", a=log, b=strange)
    assert ended.code == 1
    assert ended.document["undecoded"] == [{"offset": at, "record": "record type 127 v3"}]


def test_q06_snapshots_that_survive_are_named_and_end_with_1(tmp_path: Path) -> None:
    log = small_log()
    ahead = longer(log)
    ahead.snapshot(*topic("ledger", LEDGER, (1, 2)))
    ended = inspect(tmp_path, "--copy", f"log:{tmp_path}/a", "--json", a=log, b=ahead)
    assert ended.document["surviving_snapshots"] == [
        {"path": f"{tmp_path}/b/__cluster_metadata-0", "snapshots": list(ahead.snapshots)}
    ]


def test_copies_of_two_clusters_are_refused(tmp_path: Path) -> None:
    small_log().save(tmp_path / "b", 102, cluster="another-cluster-idAAAA")
    ended = breakglass("quorum", "inspect", f"log:{tmp_path / 'b'}", _saved(tmp_path))
    assert ended.code == 2
    assert "2 clusters" in ended.err


@pytest.mark.parametrize("given", ["a", "log:", "log:/no/such/folder"])
def test_an_address_that_names_no_folder_is_refused(given: str) -> None:
    assert breakglass("quorum", "inspect", given).code == 2


def test_a_folder_without_metadata_and_a_copy_that_was_not_named_are_refused(
    tmp_path: Path,
) -> None:
    (tmp_path / "empty").mkdir()
    assert breakglass("quorum", "inspect", f"log:{tmp_path / 'empty'}").code == 2
    other = ("--copy", f"log:{tmp_path / 'empty'}")
    assert breakglass("quorum", "inspect", _saved(tmp_path), *other).code == 2


def test_names_of_topics_cannot_act_on_the_terminal(tmp_path: Path) -> None:
    log = small_log()
    hostile = log.fork()
    hostile.add(*topic("\x1b[2Jgone", LEDGER, (1,)))
    assert "\x1b" not in inspect(tmp_path, a=log, b=hostile).out


HOLD = """
import fcntl, sys
file = open(sys.argv[1], "w")
fcntl.lockf(file, fcntl.LOCK_EX)
print("held", flush=True)
sys.stdin.read()
"""


def test_the_folder_of_a_running_node_is_read_and_named(tmp_path: Path) -> None:
    source = _saved(tmp_path)
    command = [sys.executable, "-c", HOLD, str(tmp_path / "a" / ".lock")]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE) as node:
        assert node.stdout is not None
        node.stdout.readline()
        ended = breakglass("quorum", "inspect", source)
        node.communicate()
    assert ended.code == 0
    assert f"{tmp_path}/a/__cluster_metadata-0 may have grown since" in ended.out
    assert "as their nodes run" not in breakglass("quorum", "inspect", source).out


def _saved(folder: Path) -> str:
    small_log().save(folder / "a", 101)
    return f"log:{folder / 'a'}"
