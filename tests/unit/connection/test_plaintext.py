"""What is done to a connection to a PLAINTEXT listener: nothing."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

from breakglass.services.connection.plaintext import Plaintext

ROOT = Path(__file__).parents[3]


def test_a_socket_stays_as_it_is_and_nobody_logs_in() -> None:
    with socket.socket() as plain:
        assert Plaintext().wrap(plain, "broker.example") is plain
    assert Plaintext().sasl("broker.example") is None


def test_reading_plaintext_imports_nothing_of_tls_and_logins() -> None:
    probe = """
import sys
from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.session import ReadAccess
ReadAccess(ConnectionSettings((Endpoint("127.0.0.1", 9092),))).client().close()
print(*sys.modules)
"""
    done = subprocess.run([sys.executable, "-c", probe], cwd=ROOT, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    needless = {
        f"breakglass.services.connection.{name}" for name in ("tls", "sasl", "oauth", "security")
    }
    assert not needless & set(done.stdout.split())
