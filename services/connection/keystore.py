"""Key stores and trust stores: PEM and PKCS12 into PEM in memory; JKS refused with the cure."""

from __future__ import annotations

import re
import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.connection.secret import Secret
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes

_PEM_BLOCK = re.compile(
    r"-+BEGIN\s+(?P<label>[A-Z0-9 ]+?)\s*-+\s(?P<headers>(?:\s*[A-Za-z\-]+:[^\r\n]*[\r\n]+)*)"
    r"(?P<body>[a-zA-Z0-9/+=\s]*?)-+END\s+(?P=label)\s*-+"
)
"""As lenient as PemParser of DefaultSslEngineFactory: properties files lose the line ends."""

_JAVA_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
"""First bytes of JavaKeyStore.java (0xfeedfeed) and JceKeyStore.java (0xcececece)."""


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """Why a store cannot be used, and what to do; quotes nothing of its content."""

    reason: str


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """What proves who we are."""

    chain_pem: str
    """Our certificate first, then those that lead to the root."""
    key_pem: Secret
    key_password: Secret | None = None


def trusted_from_pem(text: str) -> str | StoreProblem:
    """The certificates in *text* as clean PEM."""
    return _blocks(text, "CERTIFICATE") or StoreProblem("holds no certificate in PEM form")


def certificate_from_pem(
    chain: Secret, key: Secret, password: Secret | None
) -> ClientCertificate | StoreProblem:
    """A client certificate from PEM texts, which may be the same one."""
    certificates = _blocks(chain.reveal(), "CERTIFICATE")
    if not certificates:
        return StoreProblem("holds no certificate in PEM form")
    keys = Secret(_blocks(key.reveal(), "PRIVATE KEY"))
    count = keys.reveal().count("-----BEGIN")
    if count != 1:
        return StoreProblem(f"has to hold one private key in PEM form and holds {count}")
    if password is None and "ENCRYPTED" in keys.reveal():
        return StoreProblem("holds an encrypted private key; set ssl.key.password")
    return ClientCertificate(certificates, keys, password)


def trusted_from_file(path: Path, password: Secret | None) -> str | StoreProblem:
    """The certificates that a trust store in a file holds, as PEM.

    The format is told by the content, as Java does for JKS and PKCS12 whatever the type says.
    """
    data = _read(path)
    if isinstance(data, StoreProblem):
        return data
    if b"-----BEGIN" in data:
        return trusted_from_pem(data.decode("latin-1"))
    store = _load_pkcs12(data, password)
    if isinstance(store, StoreProblem):
        return store
    return store.certificates_pem or StoreProblem("holds no certificate")


def certificate_from_file(
    path: Path, store_password: Secret | None, key_password: Secret | None
) -> ClientCertificate | StoreProblem:
    """The client certificate that a key store in a file holds."""
    data = _read(path)
    if isinstance(data, StoreProblem):
        return data
    if b"-----BEGIN" in data:
        text = Secret(data.decode("latin-1"))
        return certificate_from_pem(text, text, key_password)
    store = _load_pkcs12(data, store_password)
    if isinstance(store, StoreProblem):
        return store
    if store.key_pem is None:
        return StoreProblem("holds no private key; it may be a trust store")
    return ClientCertificate(store.certificates_pem, store.key_pem)


def _read(path: Path) -> bytes | StoreProblem:
    """The bytes of a file that is not a Java key store."""
    try:
        data = read_regular(path, SETTINGS_BYTES)
    except OSError as error:
        return StoreProblem(
            f"cannot be read ({error.strerror or 'no reason given'}): check the path and its rights"
        )
    kind = _JAVA_STORES.get(data[:4])
    return data if kind is None else StoreProblem(_conversion(path, kind))


def _conversion(path: Path, kind: str) -> str:
    converted = path.with_suffix(".p12")
    return (
        f"is a {kind} store, which Breakglass does not read; convert it with `keytool "
        f"-importkeystore -srckeystore {shlex.quote(str(path))} -srcstoretype {kind} "
        f"-destkeystore {shlex.quote(str(converted))} -deststoretype PKCS12`, name the new file "
        "here and set its type to PKCS12"
    )


@dataclass(frozen=True, slots=True)
class _Pkcs12:
    certificates_pem: str
    key_pem: Secret | None


def _load_pkcs12(data: bytes, password: Secret | None) -> _Pkcs12 | StoreProblem:
    """Read PKCS12, its key with the store's password: Java gives both the same one."""
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        store = pkcs12.load_pkcs12(data, password.reveal().encode() if password else None)
    except ValueError:
        return StoreProblem(_pkcs12_refusal(data, password))
    held = [store.cert, *store.additional_certs]
    certificates = [one.certificate.public_bytes(Encoding.PEM).decode() for one in held if one]
    return _Pkcs12("".join(certificates), _key_pem(store.key))


def _pkcs12_refusal(data: bytes, password: Secret | None) -> str:
    if not data.startswith(b"0"):
        return "is neither PEM nor PKCS12; check that it is the right file"
    if password is None:
        return "is a PKCS12 store that does not open without a password; set its password"
    return "is a PKCS12 store that does not open with this password; check it"


def _key_pem(key: PrivateKeyTypes | None) -> Secret | None:
    from cryptography.hazmat.primitives import serialization

    if key is None:
        return None
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.NoEncryption(),
    )
    return Secret(pem.decode())


def _blocks(text: str, label: str) -> str:
    """The PEM blocks of *text* whose label ends with *label*, each in its standard form."""
    return "".join(
        _standard_block(match)
        for match in _PEM_BLOCK.finditer(text)
        if match["label"].endswith(label)
    )


def _standard_block(match: re.Match[str]) -> str:
    label, body = match["label"], "".join(match["body"].split())
    lines = [body[start : start + 64] for start in range(0, len(body), 64)]
    headers = match["headers"].split("\n") if match["headers"] else []
    head = [*(line.strip() for line in headers if line.strip()), ""] if headers else []
    return "\n".join([f"-----BEGIN {label}-----", *head, *lines, f"-----END {label}-----", ""])
