"""The commands as an operator runs them: their answers, and what kill -9 leaves behind."""

import json
import shutil
import signal
from pathlib import Path

import pytest

from breakglass.services.lab.cluster import Cluster
from tests.kit.running import Running
from tests.kit.waiting import wait_until
from tests.lab.backup.commands import finish, last_line, so_far, started
from tests.lab.backup.independent import Content, committed, delivered, stored
from tests.lab.backup.producing import make, numbered, produce
from tests.lab.backup.watching import jvms


@pytest.mark.parametrize("victim", ["driver", "jvm"])
def test_a_stream_that_is_killed_is_gone_on_with_and_ends_well_when_asked_to(
    whole_broker: Cluster, topic: str, tmp_path: Path, victim: str
) -> None:
    make(whole_broker, topic)
    words = ["run", "--topics", topic, "--store", str(tmp_path), "--continuous", "--json"]

    def held() -> list[tuple[int, Content]]:
        return committed(tmp_path / topic, 0)

    def wait(process: Running, count: int) -> None:
        def held_so_many() -> bool:
            produce(whole_broker, topic, numbered(20))
            return len(held()) > count

        so_far(process, held_so_many, "the stream to come so far")

    with started(whole_broker, *words) as process:
        wait(process, 100)
        if victim == "driver":
            process.process.send_signal(signal.SIGKILL)
        else:
            (jvm,) = jvms(process.process)
            jvm.kill()
            produce(whole_broker, topic, numbered(5))
            assert process.wait() == 1, process.said
    before = held()
    assert before == delivered(whole_broker, topic, 0)[: len(before)]
    with started(whole_broker, *words) as process:
        wait(process, len(before) + 100)
        truth = delivered(whole_broker, topic, 0)
        wait_until(lambda: len(held()) >= len(truth), "the rest")
        process.terminate()
        assert process.wait() == 0, process.said
    assert process.told[-1]["whole"]
    assert stored(tmp_path / topic, 0) == held() == truth
    assert list((tmp_path / topic).glob(".breakglass-*")) == []


def test_the_last_line_sums_up(whole_broker: Cluster, topic: str, tmp_path: Path) -> None:
    make(whole_broker, topic, partitions=2)
    produce(whole_broker, topic, numbered(5))
    code, out, _ = finish(
        whole_broker, "run", "--topics", topic, "--store", str(tmp_path), "--json"
    )
    summary = last_line(out)
    assert code == 0
    figures = {name: summary[name] for name in ("records", "partitions", "gaps", "whole")}
    assert figures == {"records": 5, "partitions": 2, "gaps": {}, "whole": True}
    assert summary["seconds"] > 0
    assert summary["bytes"] == sum(
        path.stat().st_size for path in (tmp_path / topic).glob("*_partition_000_*_records")
    )
    code, out, _ = finish(whole_broker, "status", "--store", str(tmp_path), "--live", "--json")
    (held,) = json.loads(out)["topics"]
    assert [one["lag"] for one in held["partitions"]] == [0, 0]
    other = tmp_path / "not-in-the-cluster"
    shutil.copytree(tmp_path / topic, other)
    for side_file in other.glob("breakglass_*"):
        side_file.unlink()
    code, out, _ = finish(whole_broker, "verify", "--store", str(tmp_path), "--live", "--json")
    judged = {one["topic"]: one for one in json.loads(out)["topics"]}
    assert (code, judged[topic]["identical"], judged[topic]["not_compared"]) == (1, True, None)
    assert "has no manifest" in judged[other.name]["not_compared"]


def test_a_pattern_that_fits_no_topic_is_a_mistake_and_makes_no_backup(
    whole_broker: Cluster, tmp_path: Path
) -> None:
    """A job that is scheduled with such a pattern would succeed every night."""
    place = tmp_path / "place"
    code, _, _ = finish(whole_broker, "run", "--topics-regex", "nosuch-.*", "--store", str(place))
    assert (code, place.exists()) == (2, False)
