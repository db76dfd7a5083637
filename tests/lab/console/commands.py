"""Running the electing commands against a lab, as a script does that reads what they want."""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from breakglass.services.guard.journal import JournalView, list_journals
from breakglass.services.lab.cluster import Cluster
from breakglass.services.model import TopicPartition
from breakglass.services.recovery.plan.document import Plan
from tests.kit.plans import read_plan
from tests.kit.program import Ended, breakglass

MAX_CONSENTS = 20


def on(cluster: Cluster, *arguments: object) -> Ended:
    """Run a command on *cluster*."""
    return breakglass(*arguments, "--bootstrap-server", cluster.bootstrap_servers)


def agreeing(cluster: Cluster, *arguments: object) -> tuple[Ended, list[str]]:
    """Run a command with `--write` and every consent it asks for; returns these too."""
    phrases: list[str] = []
    while len(phrases) < MAX_CONSENTS:
        given = [word for phrase in phrases for word in ("--consent", phrase)]
        ended = on(cluster, *arguments, "--write", *given)
        last = ended.said[-1] if ended.said else ""
        if ended.code != 3 or not last.startswith("consent: "):
            return ended, phrases
        phrases.append(last.removeprefix("consent: "))
    raise AssertionError(f"still asked for consent after {phrases}")


def made_plan(cluster: Cluster, folder: Path, *topics: str, more: tuple[str, ...] = ()) -> Path:
    """A plan over *topics*, with b3 declared gone."""
    path = folder / f"{'-'.join(topics)}.json"
    named = [word for topic in topics for word in ("--topics", topic)]
    ended = on(cluster, "plan", "make", "--gone", 3, *named, "--out", path, *more)
    assert ended.code == 0, ended.err
    return path


def leader(cluster: Cluster, topic: str, number: int = 0) -> int | None:
    """Who leads the partition."""
    return cluster.partition(topic, number).leader


def elections(folder: Path, leaders: Mapping[TopicPartition, int]) -> Path:
    """A file in Kafka's format that elects *leaders*."""
    entries = [
        {"topic": one.topic, "partition": one.partition, "designatedLeader": broker}
        for one, broker in leaders.items()
    ]
    path = folder / "elections.json"
    path.write_text(json.dumps({"partitions": entries}))
    return path


def results(ended: Ended) -> dict[str, str]:
    """Each partition's result, from the JSON of `recover`."""
    return {
        f"{document['topic']}-{document['partition']}": document["result"]
        for document in partitions(ended)
    }


def partitions(ended: Ended) -> list[dict[str, Any]]:
    """The partitions of a JSON document."""
    told: list[dict[str, Any]] = ended.document["partitions"]
    return told


def journals(cluster: Cluster) -> list[JournalView]:
    """The journals of *cluster* that can be read, the newest first."""
    found = list_journals(cluster.layout.cluster_id)
    return [view for view in found if isinstance(view, JournalView)]


def last_journal(cluster: Cluster) -> JournalView:
    """The newest journal of *cluster*."""
    newest = list_journals(cluster.layout.cluster_id)[0]
    assert isinstance(newest, JournalView)
    return newest


def plan_in(path: Path) -> Plan:
    """The plan that a command wrote."""
    return read_plan(path)


def partition(topic: str, number: int = 0) -> TopicPartition:
    return TopicPartition(topic, number)
