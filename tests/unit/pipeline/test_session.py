"""A JVM that is gone is one error, without a traceback of the library that asked it."""

from __future__ import annotations

import logging
import socket
import struct
import threading
from pathlib import Path

import pytest

from breakglass.services.errors import PipelineError
from breakglass.services.pipeline.session import WantedSpark, _conf, _context, forget_jvm


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
        wanted = WantedSpark("local[1]", {}, tmp_path / "log", 0)
        with caplog.at_level(logging.WARNING), pytest.raises(PipelineError):
            _context(wanted, _conf(wanted, {}))
        forget_jvm()
    assert [record.message for record in caplog.records if "py4j" in record.pathname] == []
