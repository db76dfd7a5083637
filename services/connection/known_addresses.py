"""Where the brokers of a cluster are: a session that was given one address survives its death.

What one client of a session learns from metadata, all of them use. It is remembered by cluster id
for later sessions that are given one of the same addresses, which believe it only where the broker
that answers there is of that cluster.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.regular_file import read_regular, replace_regular
from breakglass.services.snapshot import Broker

SCHEMA = 1
MOST_CLUSTERS = 500
"""The files of so many clusters are looked at."""
MOST_BYTES = 1024 * 1024


class _Remembered(NamedTuple):
    """What another session learned of one cluster."""

    at_ns: int
    cluster_id: str
    given: frozenset[Endpoint]
    """The addresses that led to it."""
    brokers: Mapping[int, Endpoint]


class KnownAddresses:
    """Those of one cluster, that of the addresses *given* by the operator. For many threads."""

    def __init__(self, given: Sequence[Endpoint], folder: Path | None = None) -> None:
        """*folder* is where sessions remember them; None: this one remembers nothing."""
        self._given, self._folder = frozenset(_plain(given)), folder
        self._lock = threading.Lock()
        self._learned = ""
        """The cluster that the given addresses lead to."""
        self._brokers: dict[int, Endpoint] = {}
        self._newest: dict[int, Endpoint] = {}
        self._misleading: set[Endpoint] = set()

    def learn(self, cluster_id: str, brokers: Iterable[Broker]) -> None:
        """Take in what the metadata of the cluster says."""
        found = {broker.id: Endpoint(broker.host, broker.port) for broker in brokers}
        with self._lock:
            if (self._learned and cluster_id != self._learned) or found == self._newest:
                return
            self._learned, self._newest = cluster_id, found
            self._brokers |= found
            self._misleading.difference_update(found.values())
            if self._folder is not None:
                with suppress(OSError):  # One way less for a later session, and none for this one.
                    self._write(self._folder)

    @property
    def learned(self) -> str:
        """The cluster that the given addresses led to; empty before this session has read any."""
        return self._learned

    @property
    def newest(self) -> tuple[Endpoint, ...]:
        """The addresses in the newest metadata; none before this session has read any."""
        return tuple(self._newest.values())

    def others(self) -> dict[int, Endpoint]:
        """Where each broker was, by the metadata of this session or, before it has any, of others.

        The files are looked at only then.
        """
        with self._lock:
            return dict(self._brokers if self._learned else self._from_file())

    def misleads(self, address: Endpoint) -> bool:
        """Whether another cluster was found at *address*."""
        return not self._misleading.isdisjoint(_plain((address,)))

    def is_misled(self, cluster_id: str) -> bool:
        """Whether a broker of *cluster_id* is of another cluster than the known addresses."""
        return bool(self._cluster_id) and cluster_id != self._cluster_id

    def forget(self, address: Endpoint) -> None:
        """Another cluster answers at *address*."""
        with self._lock:
            self._misleading.update(_plain((address,)))

    @property
    def _cluster_id(self) -> str:
        if self._learned:
            return self._learned
        found = self._newest_file()
        return "" if found is None else found.cluster_id

    def _from_file(self) -> Mapping[int, Endpoint]:
        found = self._newest_file()
        return {} if found is None else found.brokers

    def _newest_file(self) -> _Remembered | None:
        """The cluster that one of the given addresses led to last."""
        if self._folder is None:
            return None
        files = sorted(self._folder.glob("*.json"))[:MOST_CLUSTERS]
        found = [one for path in files if (one := _read(path)) and self._given & one.given]
        return max(found, key=lambda one: one.at_ns, default=None)

    def _write(self, folder: Path) -> None:
        from breakglass.services.guard.lock import file_name
        from breakglass.services.rights import make_folders

        path = folder / f"{file_name(self._learned)}.json"
        before = _read(path)
        given = self._given | (before.given if before else frozenset())
        document = {
            "schema": SCHEMA,
            "at_ns": time.time_ns(),
            "cluster_id": self._learned,
            "given": sorted([at.host, at.port] for at in given),
            "brokers": {id: [at.host, at.port] for id, at in self._brokers.items()},
        }
        make_folders(folder)
        replace_regular(path, json.dumps(document).encode(), 0o600)


def _read(path: Path) -> _Remembered | None:
    """What *path* has; None where it is not what a session wrote."""
    try:
        read = json.loads(read_regular(path, MOST_BYTES))
        if read["schema"] != SCHEMA:
            return None
        return _Remembered(
            int(read["at_ns"]),
            str(read["cluster_id"]),
            frozenset(Endpoint(str(host), int(port)) for host, port in read["given"]),
            {int(id): Endpoint(str(at[0]), int(at[1])) for id, at in read["brokers"].items()},
        )
    except (OSError, ValueError, LookupError, TypeError, AttributeError):
        return None


def _plain(addresses: Iterable[Endpoint]) -> Iterator[Endpoint]:
    """Without what a certificate has to say."""
    return (Endpoint(address.host, address.port) for address in addresses)
