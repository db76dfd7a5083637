"""A lab whose advertised names do not resolve, behind TLS and OAUTHBEARER: reached by tunnels."""

import base64
import json
import threading
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from breakglass.services.connection.sources import ConnectionOptions, connection_settings
from breakglass.services.lab.cluster import Cluster
from breakglass.services.lab.layout import Address, Listener
from breakglass.services.lab.properties import SUPER_USER, render
from breakglass.services.lab.proxy import Proxy
from breakglass.services.session import ReadAccess
from tests.unit.connection.certificates import Identity

CLIENT_ID, CLIENT_SECRET = "operator", "hush-sentinel"
MODULE = "org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule"
LISTENER = f"listener.name.{Listener.CLIENT.value.lower()}."
PORT = 9093
TOKEN_SECONDS = 300


def hidden_name(broker: int) -> str:
    """What a broker advertises; the domain ``invalid`` never resolves (RFC 2606)."""
    return f"broker-{broker}.hidden.invalid"


class TokenService:
    """An identity provider: unsigned tokens for one client id and its secret."""

    def __init__(self) -> None:
        self.given = 0
        service = self
        right = base64.b64encode(f"{CLIENT_ID}:{CLIENT_SECRET}".encode()).decode()

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                self.rfile.read(int(self.headers["Content-Length"]))
                known = self.headers["Authorization"] == f"Basic {right}"
                self.send_response(200 if known else 401)
                self.end_headers()
                if known:
                    service.given += 1
                    self.wfile.write(json.dumps({"access_token": _token()}).encode())

            def log_message(self, *_: object) -> None:
                """Stay silent."""

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.05,))
        self._thread.start()
        self.url = f"http://127.0.0.1:{self._server.server_port}/token"

    def close(self) -> None:
        """End the service."""
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()


def _token() -> str:
    now = int(time.time())
    parts = {"alg": "none"}, {"sub": SUPER_USER, "iat": now, "exp": now + TOKEN_SECONDS}
    texts = (base64.urlsafe_b64encode(json.dumps(part).encode()) for part in parts)
    return ".".join(text.decode().rstrip("=") for text in texts) + "."


@dataclass(frozen=True, slots=True)
class HiddenCluster:
    """A lab that is reached by tunnels alone, and the file of client properties that is needed."""

    cluster: Cluster
    tokens: TokenService
    tunnels: dict[int, Proxy]
    properties: Path
    addresses: Path
    """A file for ``--broker-address``."""

    @property
    def options(self) -> ConnectionOptions:
        """How to get in."""
        return ConnectionOptions(
            str(self.tunnels[1].address),
            command_config=str(self.properties),
            broker_address=(f"@{self.addresses}",),
        )

    @property
    def words(self) -> tuple[str, ...]:
        """The same as words of a command line."""
        bootstrap = ("--bootstrap-server", str(self.tunnels[1].address))
        tunnels = ("--broker-address", f"@{self.addresses}")
        return (*bootstrap, "--command-config", str(self.properties), *tunnels)

    @property
    def access(self) -> ReadAccess:
        """How services get in."""
        return ReadAccess(connection_settings(self.options, {}))


@contextmanager
def hidden_cluster(folder: Path, brokers: int = 2) -> Iterator[HiddenCluster]:
    """*brokers* whose clients know only tunnels to them."""
    root = Identity.authority()
    keys = folder / "keys"
    keys.mkdir()
    names = [hidden_name(broker) for broker in range(1, brokers + 1)]
    server = root.signs("brokers", *names)
    (keys / "broker.pem").write_text(server.key_pem() + server.chain_pem)
    (keys / "root.pem").write_text(root.pem)
    guarded = {
        f"{LISTENER}ssl.keystore.type": "PEM",
        f"{LISTENER}ssl.keystore.location": str(keys / "broker.pem"),
        f"{LISTENER}sasl.enabled.mechanisms": "OAUTHBEARER",
        f"{LISTENER}oauthbearer.sasl.jaas.config": f"{MODULE} required;",
    }
    with ExitStack() as stack:
        cluster = Cluster.plan(
            folder / "lab", brokers=brokers, secured=True, tethered=True, overrides=guarded
        )
        stack.callback(cluster.down)
        for broker in range(1, brokers + 1):
            cluster.advertise(broker, Address(hidden_name(broker), PORT))
        cluster.start()
        tunnels = {
            node.id: stack.enter_context(Proxy(node.address(Listener.CLIENT), opaque=True))
            for node in cluster.layout.brokers
        }
        tokens = TokenService()
        stack.callback(tokens.close)
        properties = folder / "client.properties"
        properties.touch(mode=0o600)
        properties.write_text(render(_client_properties(keys / "root.pem", tokens.url)))
        addresses = folder / "addresses"
        addresses.write_text(
            "".join(
                f"{broker}={tunnel.address}/{hidden_name(broker)}\n"
                for broker, tunnel in tunnels.items()
            )
        )
        yield HiddenCluster(cluster, tokens, tunnels, properties, addresses)


def _client_properties(root: Path, url: str) -> dict[str, str]:
    return {
        "security.protocol": "SASL_SSL",
        "socket.connection.setup.timeout.ms": "60000",
        "ssl.truststore.type": "PEM",
        "ssl.truststore.location": str(root),
        "sasl.mechanism": "OAUTHBEARER",
        "sasl.jaas.config": f"{MODULE} required;",
        "sasl.oauthbearer.token.endpoint.url": url,
        "sasl.oauthbearer.client.credentials.client.id": CLIENT_ID,
        "sasl.oauthbearer.client.credentials.client.secret": CLIENT_SECRET,
    }
