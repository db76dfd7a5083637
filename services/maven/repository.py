"""The Maven repository that jars are downloaded from, and the lock of the cache folder."""

from __future__ import annotations

import os
import ssl
from collections.abc import Iterator, MutableMapping
from contextlib import contextmanager
from pathlib import Path

from breakglass.services.file_lock import wait_for_lock
from breakglass.services.rights import make_folders

REPOSITORY_VARIABLE = "BREAKGLASS_MAVEN_REPOSITORY"
"""Environment variable: address of a mirror that is used instead of Maven Central."""
CENTRAL = "https://repo.maven.apache.org/maven2"
CERTIFICATES = "REQUESTS_CA_BUNDLE"
"""Environment variable: the authorities that `requests`, which jgo downloads with, believes."""
SYSTEM_CERTIFICATES = (
    Path("/etc/ssl/certs/ca-certificates.crt"),
    Path("/etc/pki/tls/certs/ca-bundle.crt"),
    Path("/etc/ssl/ca-bundle.pem"),
    Path("/etc/ssl/cert.pem"),
)
"""Where Debian, Red Hat, SUSE, and Alpine and the BSDs keep the authorities of the machine."""


def repository() -> str:
    """The address of the repository."""
    return os.environ.get(REPOSITORY_VARIABLE) or CENTRAL


def trust_the_machine(environ: MutableMapping[str, str]) -> None:
    """Let `requests` believe the authorities of the machine, unless *environ* names others.

    `requests` brings authorities of its own, which do not know a proxy that opens TLS.
    """
    if environ.get(CERTIFICATES) or environ.get("CURL_CA_BUNDLE"):
        return
    named = environ.get("SSL_CERT_FILE") or ssl.get_default_verify_paths().cafile
    files = (Path(named), *SYSTEM_CERTIFICATES) if named else SYSTEM_CERTIFICATES
    found = next((file for file in files if file.is_file()), None)
    if found is not None:
        environ[CERTIFICATES] = str(found)


@contextmanager
def cache_lock(folder: Path) -> Iterator[None]:
    """A context that keeps other processes from making the same files in *folder*."""
    make_folders(folder)
    with (folder / "lock").open("w") as lock:
        wait_for_lock(lock.fileno())
        yield
