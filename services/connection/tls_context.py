"""Makes a `ssl.SSLContext` from TLS settings, and never writes a private key unencrypted."""

from __future__ import annotations

import contextlib
import os
import secrets
import ssl
import tempfile
from collections.abc import Iterator

from breakglass.services.connection.secret import Secret
from breakglass.services.connection.tls import ClientCertificate, TlsSettings
from breakglass.services.errors import BadConnectionSettings

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
