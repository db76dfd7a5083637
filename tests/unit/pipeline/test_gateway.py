"""Spark's JVM is started as Spark's own launcher starts it, and what goes wrong is said."""

from __future__ import annotations

import os
import subprocess
from importlib.util import find_spec
from pathlib import Path

import pytest

from breakglass.services.errors import PipelineError
from breakglass.services.pipeline.gateway import OPTIONS, SCRIPTED, Gateway, Launch, scripted
from breakglass.services.pipeline.java import NICENESS, find_java
from tests.kit.waiting import wait_until

SECONDS = 20.0


def launch(folder: Path, script: str, niceness: int = 0) -> Launch:
    """Of a ``java`` that does what *script* says."""
    java = folder / "java"
    java.write_text(f"#!/bin/sh\n{script}\n")
    java.chmod(0o755)
    return Launch(java, "", "1g", (), {NICENESS: str(niceness)}, folder / "errors")


def test_the_jvm_has_the_options_that_sparks_own_launcher_gives_it() -> None:
    pyspark = find_spec("pyspark")
    assert pyspark is not None
    assert pyspark.origin is not None
    home = Path(pyspark.origin).parent
    launcher = "org.apache.spark.launcher.Main"
    told = subprocess.run(
        [find_java(), "-cp", home / "jars" / "*", launcher, "org.apache.spark.deploy.SparkSubmit"],
        env={**os.environ, "SPARK_HOME": str(home), "SPARK_SCALA_VERSION": "2.13"},
        capture_output=True,
        check=True,
    )
    given = {part.decode() for part in told.stdout.split(b"\0") if part.startswith(b"-")}
    # The JVM of Breakglass has no vectors, Derby or class path of the launcher's.
    others = {"-cp", "-Xmx1g", "--add-modules=jdk.incubator.vector"}
    derby = "-Dderby.connection.requireAuthentication=false"
    assert given - others - {derby} == set(OPTIONS)


def test_a_jvm_that_ends_as_it_starts_is_said(tmp_path: Path) -> None:
    gateway = Gateway(launch(tmp_path, "echo no memory >&2; exit 3"))
    with pytest.raises(PipelineError, match="exited with status 3"):
        gateway.environment()
    assert (tmp_path / "errors").read_text() == "no memory\n"


def test_a_jvm_that_is_killed_before_it_listens_is_said(tmp_path: Path) -> None:
    gateway = Gateway(launch(tmp_path, "exec sleep 100"))
    gateway.kill()
    with pytest.raises(PipelineError, match="exited with status -9"):
        gateway.environment()


def test_the_port_and_the_secret_are_read_where_the_jvm_writes_them(tmp_path: Path) -> None:
    # As PythonGatewayServer.scala: a file that is whole as soon as it has its name.
    # Beside it: from another file system `mv` copies, and the file has its name while it is empty.
    part = "$_PYSPARK_DRIVER_CONN_INFO_PATH.part"
    written = f"printf '\\000\\000\\037\\220\\000\\000\\000\\003key' > {part}"
    named = f"mv {part} $_PYSPARK_DRIVER_CONN_INFO_PATH"
    gateway = Gateway(launch(tmp_path, f"cd {tmp_path}; {written}; {named}; exec cat"))
    found = gateway.environment()
    assert found == {"PYSPARK_GATEWAY_PORT": "8080", "PYSPARK_GATEWAY_SECRET": "key"}
    gateway.kill()


@pytest.mark.parametrize("niceness", [0, 10])
def test_the_jvm_is_out_of_the_reach_of_ctrl_c(tmp_path: Path, niceness: int) -> None:
    leads = "exec setsid" if niceness else "exec"
    gateway = Gateway(launch(tmp_path, f"{leads} sleep 100", niceness))
    wait_until(
        lambda: os.getpgid(gateway.process.pid) != os.getpgid(0), "a group of its own", SECONDS
    )
    assert gateway.process.poll() is None
    gateway.kill()


@pytest.mark.parametrize("name", SCRIPTED)
def test_who_says_how_spark_is_to_be_started_is_heeded(name: str) -> None:
    assert not scripted({})
    assert scripted({name: "something"})
