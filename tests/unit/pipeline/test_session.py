"""A JVM that is gone is one error, without a traceback of the library that asked it."""

import logging
import socket
import struct
import threading
from contextlib import nullcontext
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from breakglass.services.errors import PipelineError, UsageError
from breakglass.services.pipeline.session import (
    WantedSpark,
    _conf,
    _context,
    forget_jvm,
    require_login,
)


def reset_after_login(listener: socket.socket) -> None:
    """Take one connection, accept its secret, and reset it at its first command."""
    connection, _ = listener.accept()
    with connection, connection.makefile("rwb") as lines:
        lines.readline(), lines.readline()
        lines.write(b"!yv\n")
        lines.flush()
        lines.readline()
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


def test_a_jvm_that_is_killed_while_spark_starts_is_one_error_and_no_traceback(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """The command kills it where it ends before anything needed Spark."""
    # A Spark of other tests in this process is as it was afterwards.
    for kept in ("_active_spark_context", "_gateway", "_jvm"):
        monkeypatch.setattr(f"pyspark.SparkContext.{kept}", None)
    with socket.create_server(("127.0.0.1", 0)) as listener:
        threading.Thread(target=reset_after_login, args=(listener,), daemon=True).start()
        monkeypatch.setenv("PYSPARK_GATEWAY_PORT", str(listener.getsockname()[1]))
        monkeypatch.setenv("PYSPARK_GATEWAY_SECRET", "secret")
        wanted = WantedSpark("local[1]", tmp_path / "log", 0)
        with caplog.at_level(logging.WARNING), pytest.raises(PipelineError):
            _context(wanted, _conf(wanted, {}))
        forget_jvm()
    assert [record.message for record in caplog.records if "py4j" in record.pathname] == []


@pytest.mark.parametrize(
    ("master", "configured", "refused"),
    [
        ("local[*,4]", {}, False),
        ("spark://b1:7077", {}, True),
        ("spark://b1:7077", {"spark.authenticate": "true"}, True),
        ("spark://b1:7077", {"spark.authenticate": "true", "spark.ssl.rpc.enabled": "true"}, False),
        (
            "spark://b1:7077",
            {"spark.authenticate": "false", "spark.network.crypto.enabled": "false"},
            False,
        ),
    ],
)
def test_s43_a_spark_of_other_machines_has_to_say_whether_it_asks_for_a_login(
    master: str, configured: dict[str, str], *, refused: bool, tmp_path: Path
) -> None:
    stopped: list[None] = []
    context: Any = SimpleNamespace(getConf=lambda: configured, stop=lambda: stopped.append(None))
    with pytest.raises(UsageError) if refused else nullcontext():
        require_login(WantedSpark(master, tmp_path / "log", 0), context)
    assert bool(stopped) is refused
