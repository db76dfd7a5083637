"""The units of share/systemd: systemd takes them, the program takes their command lines."""

import os
import re
import shutil
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from breakglass.console.exits import say_ready
from tests.kit.extent import missing
from tests.unit.test_docs import ROOT, check_line

UNITS = ROOT / "share" / "systemd"
PROGRAM = "/opt/breakglass/bin/breakglass"
HANG_SECONDS = 60.0
MOST_EXPOSED = 20
"""Ten times what `systemd-analyze security` may call the exposure of a unit."""


@pytest.mark.parametrize("unit", sorted(UNITS.glob("*.service")), ids=lambda unit: unit.name)
def test_systemd_takes_a_unit_and_the_program_its_command_line(unit: Path, tmp_path: Path) -> None:
    text = unit.read_text(encoding="utf-8")
    (line,) = re.findall(f"^ExecStart={PROGRAM} (.*)$", text, re.MULTILINE)
    check_line(f"breakglass {line.replace('%i', 'prod')}")
    if shutil.which("systemd-analyze") is None:
        missing("needs systemd-analyze: apt-get install systemd")
    shutil.copytree(UNITS / "breakglass-.service.d", tmp_path / "breakglass-.service.d")
    started = tmp_path / unit.name.replace("@", "@prod")
    started.write_text(text.replace(PROGRAM, "/bin/true"), encoding="utf-8")
    analyze = ("systemd-analyze", "--man=no")
    secure = ("security", "--offline=yes", f"--threshold={MOST_EXPOSED}", "--no-pager")
    for words in (("verify",), secure):
        done = subprocess.run([*analyze, *words, started], capture_output=True, text=True)
        assert (done.returncode, done.stderr) == (0, ""), done.stdout


@pytest.mark.parametrize("abstract", [False, True])
def test_systemd_hears_once_that_the_program_has_started(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, abstract: bool
) -> None:
    name = f"@breakglass-{os.getpid()}" if abstract else str(tmp_path / "notify")
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(f"\0{name[1:]}" if abstract else name)
        systemd.setblocking(False)
        monkeypatch.setenv("NOTIFY_SOCKET", name)
        say_ready()
        say_ready()
        assert systemd.recv(100) == b"READY=1"
        with pytest.raises(BlockingIOError):
            systemd.recv(100)


def test_an_exporter_that_listens_says_so_though_its_cluster_is_down(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as systemd:
        systemd.bind(str(tmp_path / "notify"))
        systemd.settimeout(HANG_SECONDS)
        with subprocess.Popen(
            [sys.executable, "-m", "breakglass", "serve", "metrics", "--port", "0"],
            env={
                **os.environ,
                "NOTIFY_SOCKET": str(tmp_path / "notify"),
                "BREAKGLASS_BOOTSTRAP_SERVER": "127.0.0.1:9",
            },
            stderr=subprocess.DEVNULL,
        ) as exporter:
            try:
                assert systemd.recv(100) == b"READY=1"
            finally:
                exporter.terminate()
