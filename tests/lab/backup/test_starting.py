"""Spark is begun early, started once, and leaves nothing where it is not needed after all."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator

import psutil
import pytest

from tests.kit.waiting import wait_until

# In a process of its own: Spark is one for each process, and other tests have theirs.
BEGUN = """
import json, os, psutil
from breakglass.services.pipeline.session import Spark
with Spark() as spark:
    spark.begin()
    context = spark.context()
    jvm = [one.cmdline() for one in psutil.Process().children() if one.name() == "java"]
    found = {"total": context.parallelize(range(10), 2).sum(), "jvms": len(jvm)}
    found["directly"] = "org.apache.spark.api.python.PythonGatewayServer" in jvm[0]
    found["waited"] = spark.seconds_waited
    memory = context.parallelize([0], 1).map(lambda _: os.environ.get("MALLOC_TRIM_THRESHOLD_"))
    found["kept"] = memory.collect()
with Spark() as spark:
    found["again"] = spark.context().parallelize(range(10), 2).sum()
print(json.dumps(found))
"""
KEPT = [str(64 * 2**20)]
"""Bytes of free memory that a Python worker keeps for its next fetch."""
LEFT = """
import psutil, time
from breakglass.services.pipeline.session import Spark

def started():
    for one in psutil.Process().children():
        try:
            if "-cp" in one.cmdline():
                return True
        except psutil.Error:
            pass  # `java -version`, which has ended by now
    return False

with Spark() as spark:
    spark.begin()
    while not started():
        time.sleep(0.01)
assert not started(), "its JVM is left"
with Spark() as spark:
    assert spark.context().parallelize(range(10), 2).sum() == 45
"""


def ran(code: str, **environment: str) -> str:
    """What *code* printed; it ended well, and without a word of complaint."""
    done = subprocess.run(
        [sys.executable, "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("variables", "directly"), [({}, True), ({"SPARK_SUBMIT_OPTS": "-ea"}, False)]
)
def test_a_session_that_was_begun_early_is_the_one_that_is_used(
    variables: dict[str, str], *, directly: bool
) -> None:
    found = json.loads(ran(BEGUN, **variables))
    assert found.pop("waited") > 0
    assert found == {"total": 45, "jvms": 1, "directly": directly, "kept": KEPT, "again": 45}


def test_what_was_begun_in_vain_is_ended_at_once_and_can_be_begun_again() -> None:
    ran(LEFT)


@pytest.fixture
def driver() -> Iterator[subprocess.Popen[bytes]]:
    """A process with Spark, which waits."""
    code = BEGUN.replace("print(", "input(")
    with subprocess.Popen([sys.executable, "-c", code], stdin=subprocess.PIPE) as process:
        yield process
        process.kill()


def test_a_driver_that_is_killed_takes_its_jvm_with_it(driver: subprocess.Popen[bytes]) -> None:
    def workers() -> list[psutil.Process]:
        return psutil.Process(driver.pid).children(recursive=True)

    wait_until(lambda: len(workers()) > 2, "a JVM and its workers")
    started = workers()
    driver.kill()
    wait_until(lambda: not any(process.is_running() for process in started), "an end of them all")
