"""Certificates for tests: an authority, what it signs, and the stores that hold both."""

from __future__ import annotations

import datetime
import ipaddress
import ssl
from dataclasses import dataclass
from typing import Self

from cryptography import x509
from cryptography.hazmat.primitives import hashes
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.hazmat.primitives.serialization import (
    BestAvailableEncryption,
    Encoding,
    KeySerializationEncryption,
    NoEncryption,
    PrivateFormat,
    pkcs12,
)
from cryptography.x509.oid import NameOID

ALIAS = b"breakglass"


def _name(common_name: str) -> x509.Name:
    return x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, common_name)])


@dataclass(frozen=True)
class Identity:
    """A key, its certificate, and the certificates between it and the root."""

    key: ec.EllipticCurvePrivateKey
    certificate: x509.Certificate
    issuers: tuple[x509.Certificate, ...] = ()

    @classmethod
    def authority(cls, common_name: str = "Lab root") -> Self:
        key = ec.generate_private_key(ec.SECP256R1())
        return cls(key, _sign(common_name, key, None, key, (), authority=True))

    def signs(self, common_name: str, *hosts: str, authority: bool = False) -> Identity:
        """An identity that this one vouches for."""
        key = ec.generate_private_key(ec.SECP256R1())
        signed = _sign(common_name, key, self.certificate, self.key, hosts, authority=authority)
        own = (self.certificate,) if self.certificate.issuer != self.certificate.subject else ()
        return Identity(key, signed, own + self.issuers)

    def trusted(self) -> ssl.SSLContext:
        """A client's context that trusts what it signs.

        These certificates lack key identifiers, as those that openssl makes by default do; the
        default context of Python 3.13 refuses them for that.
        """
        context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
        context.load_verify_locations(cadata=self.pem)
        return context

    @property
    def pem(self) -> str:
        return self.certificate.public_bytes(Encoding.PEM).decode()

    @property
    def chain_pem(self) -> str:
        """Its certificate and those between it and the root."""
        return "".join(
            issuer.public_bytes(Encoding.PEM).decode()
            for issuer in (self.certificate, *self.issuers)
        )

    def key_pem(self, password: str | None = None) -> str:
        encryption: KeySerializationEncryption = (
            BestAvailableEncryption(password.encode()) if password else NoEncryption()
        )
        return self.key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, encryption).decode()

    def key_store(self, password: str, *, legacy: bool = False) -> bytes:
        """A PKCS12 key store, with the ciphers of today or of Java 8."""
        builder = PrivateFormat.PKCS12.encryption_builder()
        encryption: KeySerializationEncryption = BestAvailableEncryption(password.encode())
        if legacy:
            encryption = (
                builder.key_cert_algorithm(pkcs12.PBES.PBESv1SHA1And3KeyTripleDESCBC)
                .hmac_hash(hashes.SHA1())  # noqa: S303
                .build(password.encode())
            )
        return pkcs12.serialize_key_and_certificates(
            ALIAS, self.key, self.certificate, list(self.issuers) or None, encryption
        )

    def trust_store(self, password: str) -> bytes:
        """A PKCS12 trust store as keytool makes it."""
        return pkcs12.serialize_java_truststore(
            [pkcs12.PKCS12Certificate(self.certificate, ALIAS)],
            BestAvailableEncryption(password.encode()),
        )


def _sign(
    common_name: str,
    key: ec.EllipticCurvePrivateKey,
    issuer: x509.Certificate | None,
    issuer_key: ec.EllipticCurvePrivateKey,
    hosts: tuple[str, ...],
    *,
    authority: bool,
) -> x509.Certificate:
    now = datetime.datetime.now(datetime.UTC)
    builder = (
        x509.CertificateBuilder()
        .subject_name(_name(common_name))
        .issuer_name(issuer.subject if issuer else _name(common_name))
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - datetime.timedelta(hours=1))
        .not_valid_after(now + datetime.timedelta(days=2))
        .add_extension(x509.BasicConstraints(ca=authority, path_length=None), critical=True)
    )
    if hosts:
        names = x509.SubjectAlternativeName([_alternative(host) for host in hosts])
        builder = builder.add_extension(names, critical=False)
    return builder.sign(issuer_key, hashes.SHA256())


def _alternative(host: str) -> x509.GeneralName:
    try:
        return x509.IPAddress(ipaddress.ip_address(host))
    except ValueError:
        return x509.DNSName(host)
