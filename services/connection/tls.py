"""Reads TLS settings from Kafka's ``ssl.*`` keys, with the key stores and trust stores they name.

PEM and PKCS12 stores become PEM in memory; a JKS store is refused with the command to convert it.

Makes a `ssl.SSLContext` from TLS settings, and never writes a private key unencrypted.
"""

from __future__ import annotations

import contextlib
import os
import re
import secrets
import shlex
import ssl
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from breakglass.services.connection.properties import Properties
from breakglass.services.connection.secret import Secret
from breakglass.services.errors import BadConnectionSettings
from breakglass.services.regular_file import SETTINGS_BYTES, read_regular

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.asymmetric.types import PrivateKeyTypes


_PEM_BLOCK = re.compile(
    r"-+BEGIN\s+(?P<label>[A-Z0-9 ]+?)\s*-+\s(?P<headers>(?:\s*[A-Za-z\-]+:[^\r\n]*[\r\n]+)*)"
    r"(?P<body>[a-zA-Z0-9/+=\s]*?)-+END\s+(?P=label)\s*-+"
)
"""As lenient as PemParser of DefaultSslEngineFactory: properties files lose line ends."""

_JAVA_STORES = {b"\xfe\xed\xfe\xed": "JKS", b"\xce\xce\xce\xce": "JCEKS"}
"""First bytes of JavaKeyStore.java (0xfeedfeed) and JceKeyStore.java (0xcececece)."""


@dataclass(frozen=True, slots=True)
class StoreProblem:
    """Why a store cannot be used, and what to do; quotes nothing of its content."""

    reason: str


@dataclass(frozen=True, slots=True)
class ClientCertificate:
    """The certificate and key that authenticate this client."""

    chain_pem: str
    """Our certificate, followed by the chain to the root."""
    key_pem: Secret
    key_password: Secret | None = None


def trusted_from_pem(text: str) -> str | StoreProblem:
    """The certificates in *text* as clean PEM."""
    return _blocks(text, "CERTIFICATE") or StoreProblem("holds no certificate in PEM form")


def certificate_from_pem(
    chain: Secret, key: Secret, password: Secret | None
) -> ClientCertificate | StoreProblem:
    """A client certificate from two PEM texts, which may be the same text."""
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
    """The certificates of a trust store file, as PEM.

    The content decides the format, as in Java, which reads JKS and PKCS12 under either type.
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
    """The client certificate of a key store file."""
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
    """Read PKCS12, and its key by the store's password: Java gives both the same password."""
    from cryptography.hazmat.primitives.serialization import Encoding, pkcs12

    try:
        store = pkcs12.load_pkcs12(data, password.reveal().encode() if password else None)
    except ValueError:
        return StoreProblem(_pkcs12_refusal(data, password))
    held = [store.cert, *store.additional_certs]
    certificates = [
        certificate.certificate.public_bytes(Encoding.PEM).decode()
        for certificate in held
        if certificate
    ]
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
        serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption()
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


STORE_TYPES = ("JKS", "PKCS12", "PEM")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
"""DEFAULT_SSL_ENABLED_PROTOCOLS of SslConfigs.java; older versions are not offered."""

TLS_KEYS = frozenset(
    {
        "ssl.truststore.type",
        "ssl.truststore.location",
        "ssl.truststore.password",
        "ssl.truststore.certificates",
        "ssl.keystore.type",
        "ssl.keystore.location",
        "ssl.keystore.password",
        "ssl.keystore.key",
        "ssl.keystore.certificate.chain",
        "ssl.key.password",
        "ssl.endpoint.identification.algorithm",
        "ssl.enabled.protocols",
        "ssl.protocol",
    }
)


@dataclass(frozen=True, slots=True)
class TlsSettings:
    """How to open TLS, everything read into memory."""

    trusted_pem: str | None = None
    """Certificates that brokers' certificates may be signed by; None: the system's."""
    certificate: ClientCertificate | None = None
    check_hostname: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS


def read_tls(properties: Properties) -> TlsSettings:
    """Read the ``ssl.*`` keys and the stores they name.

    Combinations are refused where Kafka refuses them (DefaultSslEngineFactory.java).

    Raises: BadConnectionSettings.
    """
    key = "ssl.enabled.protocols"
    named = (properties.text(key) or ",".join(TLS_VERSIONS)).split(",")
    wanted = {name.strip() for name in named}
    versions = tuple(version for version in TLS_VERSIONS if version in wanted)
    if not versions:
        raise properties.error(key, f"names neither of {' and '.join(TLS_VERSIONS)}; name one")
    return TlsSettings(
        trusted_pem=_trusted(properties),
        certificate=_certificate(properties),
        check_hostname=_checks_hostname(properties),
        versions=versions,
    )


def _checks_hostname(properties: Properties) -> bool:
    key = "ssl.endpoint.identification.algorithm"
    value = properties.raw(key)
    if value is None or value.lower() == "https":
        return True
    if value:
        raise properties.error(
            key, f"is {value!r}; write https, or nothing behind the = to accept any host name"
        )
    return False


def _trusted(properties: Properties) -> str | None:
    inline, location = "ssl.truststore.certificates", "ssl.truststore.location"
    password = properties.secret("ssl.truststore.password")
    path, text = properties.path(location), properties.text(inline)
    _check_store(properties, "truststore", inline if text else "")
    if text:
        found, key = trusted_from_pem(text), inline
    elif path is not None:
        found, key = trusted_from_file(path, password), location
    elif password is not None:
        raise properties.error(
            "ssl.truststore.password", "is set without ssl.truststore.location; set that too"
        )
    else:
        return None
    if isinstance(found, StoreProblem):
        raise _store_error(properties, key, found)
    return found


def _certificate(properties: Properties) -> ClientCertificate | None:
    chain_key, key_key = "ssl.keystore.certificate.chain", "ssl.keystore.key"
    location = "ssl.keystore.location"
    chain, key = properties.secret(chain_key), properties.secret(key_key)
    store_password = properties.secret("ssl.keystore.password")
    key_password = properties.secret("ssl.key.password")
    path = properties.path(location)
    _check_store(properties, "keystore", key_key if key else chain_key if chain else "")
    if chain and key:
        found, blamed = certificate_from_pem(chain, key, key_password), key_key
    elif chain or key:
        missing = key_key if chain else chain_key
        raise properties.error(chain_key if chain else key_key, f"is set without {missing}")
    elif path is not None:
        found, blamed = certificate_from_file(path, store_password, key_password), location
    elif store_password is not None:
        raise properties.error(
            "ssl.keystore.password", "is set without ssl.keystore.location; set that too"
        )
    else:
        return None
    if isinstance(found, StoreProblem):
        raise _store_error(properties, blamed, found)
    return found


def _check_store(properties: Properties, store: str, inline: str) -> None:
    """Refuse a store that is named in two ways, and passwords that its type does not have."""
    type_key, location = f"ssl.{store}.type", f"ssl.{store}.location"
    pem = properties.choice(type_key, STORE_TYPES, "JKS") == "PEM"
    if inline and not pem:
        raise properties.error(inline, f"needs {type_key}=PEM; set that too")
    if inline and properties.text(location):
        raise properties.error(inline, f"and {location} are both set; leave one")
    password = f"ssl.{store}.password"
    if pem and properties.text(password):
        raise properties.error(
            password, "does not go with PEM; remove it (a key's own is ssl.key.password)"
        )


def _store_error(properties: Properties, key: str, problem: StoreProblem) -> Exception:
    path = properties.path(key) if key.endswith(".location") else None
    return properties.error(key, f"{path} {problem.reason}" if path else problem.reason)


_VERSIONS = {"TLSv1.2": ssl.TLSVersion.TLSv1_2, "TLSv1.3": ssl.TLSVersion.TLSv1_3}


def client_context(settings: TlsSettings) -> ssl.SSLContext:
    """The context for connections to brokers.

    Like Java, and unlike OpenSSL's default, it accepts any certificate of the trust store as an
    anchor, not only self-signed roots.

    Raises: BadConnectionSettings for a key that cannot be decrypted or does not fit its
        certificate.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = settings.check_hostname
    context.minimum_version = _VERSIONS[settings.versions[0]]
    context.maximum_version = _VERSIONS[settings.versions[-1]]
    context.verify_flags |= ssl.VerifyFlags.VERIFY_X509_PARTIAL_CHAIN
    _trust(context, settings.trusted_pem)
    if settings.certificate is not None:
        problem = _present(context, settings.certificate)
        if problem:
            raise BadConnectionSettings(problem)
    return context


def _trust(context: ssl.SSLContext, trusted_pem: str | None) -> None:
    if trusted_pem is None:
        context.load_default_certs()
        return
    try:
        context.load_verify_locations(cadata=trusted_pem)
    except ssl.SSLError:
        pass
    else:
        return
    raise BadConnectionSettings(
        "the trust store holds a certificate that OpenSSL cannot read: check ssl.truststore.*"
    )


def _present(context: ssl.SSLContext, certificate: ClientCertificate) -> str:
    """Load the client certificate; returns why that failed, or '' when it is loaded.

    `load_cert_chain` reads only files. The key is written encrypted with a temporary password,
    unless its owner has encrypted it already.
    """
    encrypted = _encrypted(certificate)
    if isinstance(encrypted, str):
        return encrypted
    pem, password = encrypted
    with _file_holding(certificate.chain_pem + pem) as path:
        try:
            context.load_cert_chain(path, password=password.reveal())
        except ssl.SSLError as error:
            if "MISMATCH" in (error.reason or ""):
                return "the private key of the key store does not fit its certificate: check both"
            return "the private key of the key store does not open: check ssl.key.password"
    return ""


def _encrypted(certificate: ClientCertificate) -> tuple[str, Secret] | str:
    """The key as encrypted PEM and its password, or why there is none."""
    if certificate.key_password is not None and "ENCRYPTED" in certificate.key_pem.reveal():
        return certificate.key_pem.reveal(), certificate.key_password
    from cryptography.hazmat.primitives import serialization

    password = Secret(secrets.token_urlsafe(24))
    try:
        key = serialization.load_pem_private_key(certificate.key_pem.reveal().encode(), None)
    except ValueError:
        return "the private key of the key store cannot be read: write it as PKCS8 in PEM form"
    pem = key.private_bytes(
        serialization.Encoding.PEM,
        serialization.PrivateFormat.PKCS8,
        serialization.BestAvailableEncryption(password.reveal().encode()),
    )
    return pem.decode(), password


@contextlib.contextmanager
def _file_holding(text: str) -> Iterator[str]:
    """The path of a file that only we can read: in memory on Linux, else a temporary file."""
    try:
        descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)
    except (AttributeError, OSError):
        with tempfile.NamedTemporaryFile(suffix=".pem") as file:
            file.write(text.encode())
            file.flush()
            yield file.name
        return
    try:
        os.write(descriptor, text.encode())
        yield f"/proc/self/fd/{descriptor}"
    finally:
        os.close(descriptor)
