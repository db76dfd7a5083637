"""Bundles of canned incidents: whole, and taken apart to be put together wrongly."""

import json
import zlib
from collections.abc import Iterable, Mapping, Sequence
from hashlib import sha256
from pathlib import Path
from typing import Any

from breakglass.services.bundle.archive import BLOCK, GZIP, MANIFEST, header_of
from breakglass.services.bundle.capture import BundleMaker, add_incident
from breakglass.services.bundle.records import (
    BACKED_UP,
    BACKUPS,
    BROKERS,
    GROUPS,
    JOURNAL,
    RECORDS,
    TOPICS,
    BundledBackup,
    BundledBackups,
    BundledBroker,
    BundledOffset,
    BundledRecords,
    BundledTopic,
)
from breakglass.services.health.figure import BackupGlance
from breakglass.services.incident.incident import Incident
from breakglass.services.kafka.cluster.log_dirs import BrokerLogDir
from breakglass.services.kafka.cluster.settings import ShownSetting
from breakglass.services.model import Unknown
from tests.kit.incidents import READ_AT_MS

JOURNAL_NAME = "20231114T221300.000000Z.jsonl"


def maker_of(
    incident: Incident,
    records: Sequence[BundledRecords] = (),
    journal: bytes = b"",
    backups: BundledBackups | None = None,
    backed_up: Sequence[BundledBackup] = (),
) -> BundleMaker:
    """A capture of *incident*: brokers that answer have one directory and two settings."""
    maker = BundleMaker()
    add_incident(maker, incident, ())
    silent = Unknown("b3 does not answer (connection refused)")
    brokers = [
        BundledBroker(
            broker.id,
            "connection refused" if broker.fenced is True else "",
            silent if broker.fenced is True else (BrokerLogDir("/var/kafka"),),
            silent
            if broker.fenced is True
            else (ShownSetting("log.dirs", "/var/kafka", 4), ShownSetting("x", None, 4, True)),
        )
        for broker in incident.snapshot.brokers
    ]
    maker.lines(BROKERS, brokers, READ_AT_MS)
    topics = [
        BundledTopic(name, settings, (ShownSetting("retention.ms", "1000", 1),))
        for name, settings in incident.snapshot.settings.items()
    ]
    maker.lines(TOPICS, topics, READ_AT_MS)
    maker.lines(GROUPS, [BundledOffset("billing", "ledger", 3, 90)], READ_AT_MS)
    glances = {"topics": BackupGlance("2 of 2 verified", READ_AT_MS)}
    maker.document(BACKUPS, backups or BundledBackups((), glances), READ_AT_MS)
    maker.lines(BACKED_UP, backed_up, READ_AT_MS)
    maker.lines(RECORDS, records, READ_AT_MS)
    if journal:
        maker.raw(f"{JOURNAL}{JOURNAL_NAME}", [journal], READ_AT_MS)
    return maker


def bundle_of(incident: Incident, path: Path, **parts: Any) -> Path:
    """A bundle of *incident* at *path*, with *parts* as `maker_of` takes them."""
    maker_of(incident, **parts).write(path)
    return path


def unpacked(path: Path) -> bytes:
    """All bytes of a bundle, decompressed."""
    return zlib.decompress(path.read_bytes(), GZIP)


def entries_of(path: Path) -> dict[str, bytes]:
    """The entries of a bundle by name, the manifest first; read by nothing of the product."""
    data, found, at = unpacked(path), {}, 0
    while data[at]:
        name = data[at : at + 100].rstrip(b"\0").decode()
        size = int(data[at + 124 : at + 135], 8)
        found[name] = data[at + BLOCK : at + BLOCK + size]
        at += BLOCK + size + -size % BLOCK
    return found


def packed(blocks: Iterable[bytes]) -> bytes:
    """*blocks* as a bundle is compressed."""
    packing = zlib.compressobj(6, zlib.DEFLATED, GZIP)
    return b"".join([*map(packing.compress, blocks), packing.flush()])


def tar_entry(name: str, data: bytes) -> bytes:
    """One entry of the tar, with its header and padding."""
    return header_of(name, len(data), 0) + data + bytes(-len(data) % BLOCK)


def rebuilt(
    content: Mapping[str, bytes], path: Path, *, honest: bool = True, **changed: Any
) -> Path:
    """A bundle of *content* at *path*; the manifest agrees with it if it is to be *honest*.

    *changed* takes the place of fields of the manifest.
    """
    manifest = json.loads(content[MANIFEST])
    if honest:
        manifest["entries"] = [
            {
                "name": name,
                "size": len(data),
                "sha256": sha256(data).hexdigest(),
                "read_at_ms": READ_AT_MS,
            }
            for name, data in content.items()
            if name != MANIFEST
        ]
    text = json.dumps({**manifest, **changed}).encode()
    blocks = [tar_entry(name, data) for name, data in content.items() if name != MANIFEST]
    path.write_bytes(packed([tar_entry(MANIFEST, text), *blocks, bytes(2 * BLOCK)]))
    return path
