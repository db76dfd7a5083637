"""A broker's link to its controller: cut and healed from any process, gone with the lab."""

from __future__ import annotations

import socket
import subprocess
import sys
from pathlib import Path

import psutil

from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.controller_link import ControllerLink

CUT = """
import sys
from pathlib import Path
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.controller_link import ControllerLink
ControllerLink(Cluster.load(Path(sys.argv[1])), 2).cut()
"""


def proxies(cluster: Cluster) -> list[int]:
    """Pids of the link's processes."""
    folder = str(cluster.broker(2).layout.folder)
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(
            word.startswith(folder) and "link-" in word for word in process.info["cmdline"] or []
        )
    ]


def refuses(cluster: Cluster) -> bool:
    """Whether nobody listens where b2 looks for the controller."""
    (address,) = cluster.broker(2).layout.controller_links.values()
    try:
        socket.create_connection(address, timeout=300).close()
    except ConnectionRefusedError:
        return True
    return False


def test_what_another_process_cut_stays_cut_until_it_is_healed(tmp_path: Path) -> None:
    """A cut broker hears nothing of its cluster; with the lab its link is gone."""
    with Cluster.plan(tmp_path / "lab", brokers=2, tethered=True) as linked:
        link = ControllerLink(linked, 2)
        link.plan()
        linked.start()
        assert link.whole
        command = [sys.executable, "-c", CUT, str(linked.state_dir)]
        subprocess.run(command, cwd=Path(__file__).parents[3], check=True, timeout=600)
        assert proxies(linked) == []
        assert refuses(linked)
        linked.wait_fenced(2)
        assert linked.fenced(via=1) == {1: False, 2: True}
        assert linked.fenced(via=2) == {1: False, 2: False}
        link.heal()
        linked.wait_unfenced(2)
        assert not refuses(linked)
        assert len(proxies(linked)) == 1
    assert proxies(linked) == []
