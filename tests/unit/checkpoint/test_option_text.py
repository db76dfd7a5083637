"""The options of another checkpoint of the same, and the new names of restored topics."""

from __future__ import annotations

from pathlib import Path

from breakglass.console.checkpoint_text import CommandText
from breakglass.services.checkpoint.option_text import (
    new_names,
    same_again,
)
from breakglass.services.checkpoint.protocol.flows import GroupFlow
from breakglass.services.checkpoint.store.backup_store import BackupStore
from breakglass.services.checkpoint.store.documents import (
    GroupPolicy,
    Level,
    NumberedPartition,
    TakeDocument,
)
from tests.unit.checkpoint.store.stores import completed


def test_a_suffix_is_for_the_topics_that_have_no_name_of_their_own(tmp_path: Path) -> None:
    store = BackupStore(str(tmp_path))
    completed(store, 1)
    found = store.read(1)
    assert found is not None
    topics = {partition.subject.topic for partition in found.partitions if partition.subject}
    assert new_names(found, {}, "") == {}
    assert new_names(found, {}, "-2") == {topic: f"{topic}-2" for topic in topics}
    assert new_names(found, {"x": "y"}, "")["x"] == "y"


def test_the_same_again_is_what_was_asked_for(tmp_path: Path) -> None:
    store = BackupStore(str(tmp_path))
    completed(store, 1)
    found = store.read(1)
    assert found is not None
    assert found.take is not None
    asked = CommandText().take(same_again(found))
    assert asked.topics == tuple(sorted({partition.topic for partition in found.take.partitions}))
    assert (asked.groups, asked.level) == (found.take.groups, found.take.level)


def test_the_same_again_has_the_topology_and_what_is_external(tmp_path: Path) -> None:
    store = BackupStore(str(tmp_path))
    subjects = tuple(NumberedPartition(number, topic, 0) for number, topic in enumerate("abc", 1))
    flow = GroupFlow("g1", ("a",), ("b",))
    groups = {"g1": GroupPolicy.AT_LEAST_ONCE, "g2": GroupPolicy.LEFT_OUT}
    take = TakeDocument(
        1, Level.ORDERED, subjects, "request", 1, groups=groups, external=("c",), flows=(flow,)
    )
    assert store.reserve(take) is None
    found = store.read(1)
    assert found is not None
    assert found.take == take
    asked = CommandText().take(same_again(found))
    assert (asked.groups, asked.level) == (groups, Level.ORDERED)
    assert (asked.external, asked.flows) == (("c",), (flow,))
