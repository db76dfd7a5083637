"""The commands as an operator runs them: their answers, and what kill -9 leaves behind."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.produce import Pattern
from breakglass.services.lab.produce import produce as produce_many
from breakglass.services.topic_backup.folder import LocalFolder
from breakglass.services.topic_backup.verification import verify_files
from tests.kit.waiting import wait_until
from tests.pipeline.independent import Content, committed, delivered, stored
from tests.pipeline.producing import make, numbered, produce
from tests.pipeline.test_restore import without_offsets
from tests.pipeline.watching import jvms

DEADLINE_SECONDS = 150.0


@contextmanager
def started(
    broker: Cluster, *words: str, before: Sequence[str] = ()
) -> Iterator[subprocess.Popen[str]]:
    """`breakglass backup` under way on the broker; killed at the end if it still is.

    *before* is a command that starts it.
    """
    where = ["--bootstrap-server", broker.bootstrap_servers]
    program = "import sys; from breakglass.console.cli import main; sys.exit(main())"
    with subprocess.Popen(
        [*before, sys.executable, "-c", program, "backup", *words, *where],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        try:
            yield process
        finally:
            process.kill()


def finish(broker: Cluster, *words: str) -> tuple[int, str, str]:
    """Run it to its end: exit code, stdout and stderr."""
    with started(broker, *words) as process:
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
    return process.returncode, out, err


def last_line(out: str) -> Any:
    return json.loads(out.splitlines()[-1])


def kill_when(broker: Cluster, *words: str, condition: Callable[[], bool]) -> None:
    """Run it until *condition* holds, then kill it with -9."""
    with started(broker, *words) as process:

        def reached() -> bool:
            assert process.poll() is None, process.communicate()
            return condition()

        wait_until(reached, "the moment to kill it", DEADLINE_SECONDS, every=0.002)
        process.send_signal(signal.SIGKILL)


@pytest.mark.slow
@pytest.mark.timeout(4 * DEADLINE_SECONDS)
def test_a_backup_and_a_restore_whose_drivers_are_killed_lose_and_double_nothing(
    broker: Cluster, topic: str, tmp_path: Path
) -> None:
    """Both are killed with records under way, then run again."""
    make(broker, topic)
    produce_many(broker, topic, 0, 30_000, pattern=Pattern(value_bytes=1000))
    folder = tmp_path / "backup" / topic
    run = ["run", "--topics", topic, "--store", str(tmp_path / "backup")]

    def writing() -> bool:
        parts = list(folder.glob(".breakglass-*-records.tmp"))
        return any(part.stat().st_size > 1_000_000 for part in parts)

    kill_when(broker, *run, condition=writing)
    code, out, err = finish(broker, *run, "--json")
    assert (code, last_line(out)["records"]) == (0, 30_000), err
    assert verify_files(LocalFolder(folder)).whole
    assert [path for path in folder.iterdir() if path.name.startswith(".")] == []

    target, state = f"{topic}-back", tmp_path / "state"
    back = ["restore", "--store", str(tmp_path / "backup"), "--map", f"{topic}={target}"]
    back += ["--progress", str(state), "--write", "--batch-records", "500"]
    back += ["--consent", f"restore 30,000 records into {target}"]
    log = state / target / "partition-0.jsonl"
    kill_when(broker, *back, condition=lambda: log.exists() and log.stat().st_size > 500)
    code, out, err = finish(broker, *back, "--resume", "--json")
    assert code == 0, err
    (done,) = last_line(out)["topics"]
    assert (done["verified"], done["error"]) == (True, "")
    assert 0 < done["records"] < 30_000
    assert without_offsets(broker, target) == without_offsets(broker, topic)


@pytest.mark.slow
@pytest.mark.timeout(4 * DEADLINE_SECONDS)
@pytest.mark.parametrize("victim", ["driver", "jvm"])
def test_a_stream_that_is_killed_is_gone_on_with_and_ends_well_when_asked_to(
    broker: Cluster, topic: str, tmp_path: Path, victim: str
) -> None:
    make(broker, topic)
    words = ["run", "--topics", topic, "--store", str(tmp_path), "--continuous", "--json"]

    def held() -> list[tuple[int, Content]]:
        return committed(tmp_path / topic, 0)

    def wait(process: subprocess.Popen[str], condition: Callable[[], bool]) -> None:
        def reached() -> bool:
            assert process.poll() is None, process.communicate()
            produce(broker, topic, numbered(20))
            return condition()

        wait_until(reached, "the stream to come so far", DEADLINE_SECONDS, every=0.5)

    with started(broker, *words) as process:
        wait(process, lambda: len(held()) > 100)
        if victim == "driver":
            process.send_signal(signal.SIGKILL)
        else:
            (jvm,) = jvms(process)
            jvm.kill()
            produce(broker, topic, numbered(5))
            _, err = process.communicate(timeout=DEADLINE_SECONDS)
            assert (process.returncode, "Spark's JVM does not answer" in err) == (1, True), err
    before = held()
    assert before == delivered(broker, topic, 0)[: len(before)]
    with started(broker, *words) as process:
        wait(process, lambda: len(held()) > len(before) + 100)
        truth = delivered(broker, topic, 0)
        wait_until(lambda: len(held()) >= len(truth), "the rest", DEADLINE_SECONDS, every=0.1)
        process.send_signal(signal.SIGTERM)
        out, err = process.communicate(timeout=DEADLINE_SECONDS)
    assert (process.returncode, last_line(out)["whole"]) == (0, True), err
    assert stored(tmp_path / topic, 0) == held() == truth
    assert list((tmp_path / topic).glob(".breakglass-*")) == []


@pytest.mark.slow
@pytest.mark.timeout(2 * DEADLINE_SECONDS)
def test_the_last_line_sums_up(broker: Cluster, topic: str, tmp_path: Path) -> None:
    make(broker, topic, partitions=2)
    produce(broker, topic, numbered(5))
    code, out, _ = finish(broker, "run", "--topics", topic, "--store", str(tmp_path), "--json")
    summary = last_line(out)
    assert code == 0
    figures = {name: summary[name] for name in ("records", "partitions", "gaps", "whole")}
    assert figures == {"records": 5, "partitions": 2, "gaps": {}, "whole": True}
    assert 0 < summary["seconds"] < DEADLINE_SECONDS
    assert summary["bytes"] == sum(
        path.stat().st_size for path in (tmp_path / topic).glob("*_partition_000_*_records")
    )
    code, out, _ = finish(broker, "status", "--store", str(tmp_path), "--live", "--json")
    (held,) = json.loads(out)["topics"]
    assert [one["lag"] for one in held["partitions"]] == [0, 0]


@pytest.mark.slow
def test_a_topic_that_does_not_exist_is_a_usage_error(broker: Cluster, tmp_path: Path) -> None:
    code, _, err = finish(broker, "run", "--topics", "nowhere", "--store", str(tmp_path))
    assert (code, err.strip()) == (2, "There is no topic nowhere: check the spelling.")


@pytest.mark.slow
@pytest.mark.timeout(2 * DEADLINE_SECONDS)
def test_a_restore_that_is_not_armed_is_refused_and_makes_no_topic(
    broker: Cluster, topic: str, tmp_path: Path
) -> None:
    make(broker, topic)
    produce(broker, topic, numbered(5))
    finish(broker, "run", "--topics", topic, "--store", str(tmp_path))
    target = f"{topic}-back"
    words = ["restore", "--store", str(tmp_path), "--map", f"{topic}={target}"]
    code, _, err = finish(broker, *words, "--consent", f"restore 5 records into {target}")
    assert code == 3
    assert "add --write" in err
    code, _, err = finish(broker, "run", "--topics", target, "--store", str(tmp_path))
    assert "There is no topic" in err
