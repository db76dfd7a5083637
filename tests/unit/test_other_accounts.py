"""What another account of the same machine finds: files, processes and ports of programs that run.

The probe gives up root for the id of another account, so only root can run this test.
"""

import asyncio
import json
import os
import subprocess
import sys
import tarfile
from collections.abc import Iterator, Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from urllib.parse import urlsplit

import psutil
import pytest
from aiohttp import ClientSession

from tests.kit.fake_cluster import FakeCluster, partitions_of
from tests.kit.running import Running, ran, running
from tests.kit.waiting import DEADLINE_SECONDS

STRANGER = 54_321
SECRETS = ("hunter2-of-the-login", "hunter2-of-the-keystore", "hunter2-of-the-environment")
PROPERTIES = """
security.protocol=PLAINTEXT
sasl.jaas.config=x.PlainLoginModule required username="ops" password="hunter2-of-the-login";
ssl.keystore.password=hunter2-of-the-keystore
"""
PROBE = """if True:
    import encodings.idna, json, os, socket, sys
    account, root, processes, ports = json.loads(sys.argv[1])
    os.setgroups([])
    os.setgid(account)
    os.setuid(account)
    found = []
    def read(path):
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK)
            found.append(os.read(descriptor, 1 << 20))
            os.close(descriptor)
        except OSError:
            pass
    for folder, _, files in os.walk(root):
        for name in files:
            read(os.path.join(folder, name))
        try:
            os.close(os.open(os.path.join(folder, "planted"), os.O_WRONLY | os.O_CREAT))
            found.append(f"planted in {folder}".encode())
        except OSError:
            pass
    for process in processes:
        for name in ("cmdline", "environ", "io", "maps", "mem", "stack"):
            read(f"/proc/{process}/{name}")
    for port in ports:
        for request in ("GET /", "GET /metrics", "GET /ws", "POST /session", "nonsense"):
            with socket.create_connection(("127.0.0.1", port)) as connection:
                head = (f"{request} HTTP/1.1", "Host: localhost", "Connection: close", "", "")
                connection.sendall("\\r\\n".join(head).encode())
                while piece := connection.recv(4096):
                    found.append(piece)
    sys.stdout.buffer.write(b"\\n".join(found))
"""


@pytest.fixture
def root() -> Iterator[Path]:
    """A folder that every account may look into, with what a user has in a home."""
    if os.geteuid():
        pytest.skip("only root can become another account")
    with TemporaryDirectory() as made:
        folder = Path(made)
        folder.chmod(0o755)
        for name in ("config/breakglass", "state", "cache", "out"):
            (folder / name).mkdir(parents=True)
        (folder / "tmp").mkdir()
        (folder / "tmp").chmod(0o1777)
        yield folder


@pytest.fixture
def cluster() -> Iterator[FakeCluster]:
    with FakeCluster(2) as made:
        for order in partitions_of("orders", 2):
            made.story.offline(order, (1, 2), isr=(2,))
            made.hold(1, order, (0, 100))
            made.hold(2, order, (0, 120))
        yield made


def probed(account: int, root: Path, programs: Sequence[Running], ports: Sequence[int]) -> bytes:
    """All that *account* reads of these files, processes and ports."""
    processes = [program.pid for program in programs]
    processes += [child.pid for one in processes for child in psutil.Process(one).children(True)]
    asked = json.dumps([account, str(root), processes, ports])
    done = subprocess.run(
        [sys.executable, "-c", PROBE, asked], capture_output=True, timeout=DEADLINE_SECONDS
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


async def test_s12_another_account_finds_no_secret_no_name_and_no_place_to_write(
    root: Path, cluster: FakeCluster
) -> None:
    config = root / "config" / "breakglass"
    (config / "prod.properties").write_text(PROPERTIES)
    (config / "prod.properties").chmod(0o600)
    addresses = [f'{id} = "{at.host}:{at.port}"' for id, at in cluster.story.addresses.items()]
    profile = (
        f'[prod]\nbootstrap.servers = "{cluster.brokers[1].endpoint}"',
        'command-config = "prod.properties"\n[prod.broker-address]',
        *addresses,
    )
    (config / "profiles.toml").write_text("\n".join(profile) + "\n")
    places = {f"XDG_{name.upper()}_HOME": str(root / name) for name in ("config", "state", "cache")}
    environment = {**places, "TMPDIR": str(root / "tmp"), "PASSWORD": SECRETS[2]}
    careless = ("sh", "-c", 'umask 0; exec "$@"', "sh")
    bundle = root / "out" / "bundle.tar.gz"
    captured = ran(
        "bundle", "capture", "--profile", "prod", "--out", bundle, environment=environment
    )
    assert bundle.exists(), captured.err
    with (
        running(
            None,
            *("serve", "metrics", "--profile", "prod", "--port", "0"),
            environment=environment,
            before=careless,
        ) as exporter,
        running(
            None,
            *("serve", "--profile", "prod", "--port", "0"),
            environment=environment,
            before=careless,
        ) as dashboard,
    ):
        programs, tokens, ports = (exporter, dashboard), [], []
        for program, begin in zip(programs, ("Serving http", "Open http"), strict=True):
            url = urlsplit((await asyncio.to_thread(program.wait_for, begin)).split()[1])
            ports.append(url.port or 0)
            tokens.append(program.wait_for("token: ").removeprefix("token: "))
        own = f"http://127.0.0.1:{ports[1]}"
        async with ClientSession() as client:
            bearer = {"Origin": own, "Authorization": f"Bearer {tokens[1]}"}
            async with client.post(f"{own}/session", headers=bearer) as answer:
                key = (await answer.json())["key"]
            page = {"Origin": own, "Sec-WebSocket-Protocol": f"breakglass, {key}"}
            async with client.ws_connect(f"{own}/ws", headers=page) as console:
                shown = b""
                while b"orders" not in shown:
                    message = await console.receive(DEADLINE_SECONDS)
                    shown += message.data if isinstance(message.data, bytes) else b""
                metrics_url = f"http://127.0.0.1:{ports[0]}/metrics"
                bearer = {"Authorization": f"Bearer {tokens[0]}"}
                async with client.get(metrics_url, headers=bearer) as answer:
                    metrics = await answer.text()
                found, by_root = [
                    await asyncio.to_thread(probed, account, root, programs, ports)
                    for account in (STRANGER, 0)
                ]
        told = "\n".join((*exporter.said, *dashboard.said, exporter.out, dashboard.out))

    hidden = [*SECRETS, *tokens, key, cluster.story.cluster_id]
    assert [one for one in hidden[:3] if one.encode() not in by_root] == [], "root finds them"
    assert [one for one in (*hidden, "orders") if one.encode() in found] == []
    planted = {line for line in found.splitlines() if line.startswith(b"planted")}
    assert planted == {f"planted in {root / 'tmp'}".encode()}
    with tarfile.open(bundle) as archive:
        packed = b"".join(archive.extractfile(one).read() for one in archive)  # type: ignore[union-attr]
    assert b"orders" in packed
    assert "offline_partitions" in metrics
    for text in (packed.decode(), metrics, told, captured.out + captured.err):
        assert [secret for secret in SECRETS if secret in text] == []
