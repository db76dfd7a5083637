"""Spark is begun early, started once, and leaves nothing where it is not needed after all."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory

import psutil
import pytest

from tests.kit.waiting import wait_until

# In a process of its own: Spark is one for each process, and other tests have theirs.
BEGUN = """
import json, os, pathlib, psutil, socket, struct, tempfile
from breakglass.services.pipeline.session import Spark

def answered(port):
    # An object for the endpoint of Spark's RPC that every environment has, without a login.
    name = lambda text: struct.pack(">H", len(text)) + text
    body = b"\\0\\1" + name(b"127.0.0.1") + struct.pack(">i", port) + name(b"endpoint-verifier")
    body += b"\\xac\\xed\\0\\5t\\0\\1x"
    sent = struct.pack(">qbqi", 21 + len(body), 3, 7, len(body)) + body
    with socket.create_connection(("127.0.0.1", port)) as connection:
        connection.sendall(sent)
        connection.shutdown(socket.SHUT_WR)
        return connection.recv(9)[8:]

os.umask(0)
os.chdir(os.environ.get("CURRENT_FOLDER", "."))
with Spark() as spark:
    spark.begin()
    context = spark.context()
    jvm = [one.cmdline() for one in psutil.Process().children() if one.name() == "java"]
    found = {"total": context.parallelize(range(10), 2).sum(), "jvms": len(jvm)}
    found["directly"] = "org.apache.spark.api.python.PythonGatewayServer" in jvm[0]
    found["waited"] = spark.seconds_waited
    memory = context.parallelize([0], 1).map(lambda _: os.environ.get("MALLOC_TRIM_THRESHOLD_"))
    found["kept"] = memory.collect()
    java = [one for one in psutil.Process().children(recursive=True) if one.name() == "java"]
    listening = [one.laddr for one in java[0].net_connections() if one.status == "LISTEN"]
    found["elsewhere"] = [one.ip for one in listening if not one.ip.endswith("127.0.0.1")]
    gateway = spark.context()._gateway.gateway_parameters.port
    ports = {one.port for one in listening} - {gateway}
    found["answered"] = [answered(port).hex() for port in ports]
    made = [*pathlib.Path(tempfile.gettempdir()).iterdir()]
    found["loose"] = [str(one) for one in made if one.lstat().st_mode & 0o077]
    found["private"] = len([one for one in made if [*one.glob("blockmgr-*")]])
    found["secrets"] = [key for key in java[0].environ() if "SECRET" in key]
    configured = spark.context().getConf().getAll()
    found["secrets"] += [key for key, _ in configured if "secret" in key]
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
        [sys.executable, "-P", "-W", "error", "-c", code],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert (done.returncode, done.stderr) == (0, "")
    return done.stdout


@pytest.mark.parametrize(
    ("variables", "directly"), [({}, True), ({"SPARK_SUBMIT_OPTS": "-ea"}, False)]
)
def test_s43_a_session_that_was_begun_early_is_used_and_open_to_this_account_alone(
    tmp_path: Path, variables: dict[str, str], *, directly: bool
) -> None:
    """Under umask 0. An RPC failure (type 5) is Spark's answer to who did not log in."""
    for name in ("grp", "numpy", "pyarrow", "pyspark", "resource", "ssl", "breakglass"):
        (tmp_path / f"{name}.py").write_text("open(__file__ + '.ran', 'w')\nraise SystemExit(9)\n")
    with TemporaryDirectory() as folder:
        found = json.loads(ran(BEGUN, TMPDIR=folder, CURRENT_FOLDER=str(tmp_path), **variables))
        assert os.listdir(folder) == []
    assert [*tmp_path.glob("*.ran")] == [], "no module of the current folder is imported"
    assert found.pop("waited") > 0
    kept = {"total": 45, "jvms": 1, "directly": directly, "kept": KEPT, "again": 45}
    secret = {"elsewhere": [], "answered": ["05"] * 2, "loose": [], "private": 1, "secrets": []}
    assert found == kept | secret


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

    wait_until(lambda: driver.poll() is not None or len(workers()) > 2, "a JVM and its workers")
    assert driver.poll() is None, "a driver that ended by itself proves nothing"
    started = workers()
    driver.kill()
    wait_until(lambda: not any(process.is_running() for process in started), "an end of them all")
