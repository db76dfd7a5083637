"""Differences counted by Spark: the same figures as one core's, whatever is cut where."""

import json
from itertools import pairwise
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from breakglass.services.divergence.align import Comparison, HunkTotals, PairKind
from breakglass.services.divergence.entry import Item, UnreadableRange
from breakglass.services.divergence.source import Extent, Reading
from breakglass.services.lab.cluster import Cluster
from breakglass.services.pipeline.spark_job import count_part, merged
from tests.kit.program import breakglass
from tests.lab.asking import transactional
from tests.lab.backup.backups import BackUp
from tests.lab.backup.producing import make, numbered, produce, transact
from tests.lab.backup.restores import Restore
from tests.unit.divergence.streams import Edited, ListSource, edited, entries
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run


def by_parts(comparison: Comparison, cuts: list[int]) -> HunkTotals:
    extent = comparison.extent
    places = sorted({extent.start, extent.end, *(cut for cut in cuts if cut < extent.end)})
    parts = [Extent(*pair) for pair in pairwise(places)]
    return merged((count_part(comparison, part) for part in parts), extent)


@settings(max_examples=60, deadline=None)
@given(made=edited(), cuts=st.lists(st.integers(1, 40), max_size=5))
def test_parts_add_up_to_the_whole(made: Edited, cuts: list[int]) -> None:
    comparison = Comparison(ListSource(made.before), ListSource(made.after, "b2"))
    totals = HunkTotals()
    for pair in comparison.pairs(0, 10**6, Reading()):
        totals.add(pair)
    totals.counted_to = comparison.extent.end
    one, many = totals, by_parts(comparison, cuts)
    assert (many.kinds, many.fields, many.first) == (one.kinds, one.fields, one.first)


@given(cuts=st.lists(st.integers(1, 99), max_size=6))
def test_a_stretch_that_was_cut_is_one(cuts: list[int]) -> None:
    damaged: list[Item] = [*entries(0, 10), UnreadableRange(10, 80, "damaged"), *entries(80, 100)]
    gone = [entry for entry in entries(0, 100) if not 10 <= entry.offset < 80]
    comparison = Comparison(ListSource(damaged), ListSource(gone, "b2"))
    assert by_parts(comparison, cuts).kinds == {PairKind.EQUAL: 30, PairKind.UNREAD: 1}


def test_above_the_limit_spark_counts_the_same(tmp_path: Path) -> None:
    records = list(run(0, 5_000))
    left = back_up(tmp_path / "a", records)
    changed = [
        record._replace(value=b"x") if record.offset % 777 == 0 else record for record in records
    ]
    right = back_up(tmp_path / "b", [record for record in changed if record.offset % 1_000 != 3])
    sides = (f"backup:{left}/0", f"backup:{right}/0", "--summary", "--json")
    here, spark = breakglass("diff", *sides), breakglass("diff", *sides, "--spark-above", "1")
    assert (here.code, spark.code) == (1, 1)
    one, many = json.loads(here.out), json.loads(spark.out)
    assert (one.pop("counted_by"), many.pop("counted_by")) == ("one core", "Spark")
    del one["not_decoded"], many["not_decoded"]
    assert many == one
    assert (one["totals"]["different"], one["totals"]["left"]) == (7, 5)


def test_spark_counts_what_brokers_hold(whole_broker: Cluster, topic: str) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(3_000))
    folder = whole_broker.broker(1).partition_folder(topic, 0)
    sides = (f"replica:1/{topic}/0", f"log:{folder}", "--summary", "--json")
    servers = ("--bootstrap-server", whole_broker.bootstrap_servers)
    ended = breakglass("diff", *sides, "--spark-above", "1", *servers)
    told = json.loads(ended.out)
    assert (ended.code, told["counted_by"], told["totals"]["equal"]) == (0, "Spark", 3_000)


def test_a_restored_topic_is_compared_by_the_offsets_of_its_backup(
    whole_broker: Cluster, back_up: BackUp, restore: Restore, topic: str
) -> None:
    make(whole_broker, topic)
    produce(whole_broker, topic, numbered(300))
    transact(transactional(whole_broker, topic), topic, numbered(5), commit=False)
    produce(whole_broker, topic, numbered(200, start=300))
    back_up.await_decided(topic)
    back_up.topic(topic)
    target = f"{topic}-back"
    assert restore.topic(topic, target).records == 500
    backup = f"backup:{back_up.store.where()}/{topic}/0"
    how = ("--progress", str(restore.state), "--bootstrap-server", whole_broker.bootstrap_servers)
    for right in (f"topic:{target}/0", f"replica:1/{target}/0"):
        ended = breakglass("diff", backup, right, "--json", *how)
        told = json.loads(ended.out)
        assert (ended.code, told["totals"]["equal"], told["to"]) == (0, 500, 506)
    produce(whole_broker, target, numbered(1))
    refused = breakglass("diff", backup, f"topic:{target}/0", *how[2:])
    assert refused.code == 2
    assert "`breakglass diff --progress`" in refused.err
