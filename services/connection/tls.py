"""TLS settings from Kafka's ``ssl.*`` keys: whom to trust, who we are, which names count."""

from __future__ import annotations

from dataclasses import dataclass

from breakglass.services.connection.keystore import (
    ClientCertificate,
    StoreProblem,
    certificate_from_file,
    certificate_from_pem,
    trusted_from_file,
    trusted_from_pem,
)
from breakglass.services.connection.properties import Properties

STORE_TYPES = ("JKS", "PKCS12", "PEM")
TLS_VERSIONS = ("TLSv1.2", "TLSv1.3")
"""DEFAULT_SSL_ENABLED_PROTOCOLS of SslConfigs.java; older ones are not offered."""

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
    """Certificates that may vouch for a broker; None: those the system trusts."""
    certificate: ClientCertificate | None = None
    check_hostname: bool = True
    versions: tuple[str, ...] = TLS_VERSIONS


def read_tls(properties: Properties) -> TlsSettings:
    """Read the ``ssl.*`` keys and the stores they name.

    Combinations are refused where Kafka refuses them (DefaultSslEngineFactory.java).

    Raises: BadConnectionSettings.
    """
    return TlsSettings(
        trusted_pem=_trusted(properties),
        certificate=_certificate(properties),
        check_hostname=_checks_hostname(properties),
        versions=_versions(properties),
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


def _versions(properties: Properties) -> tuple[str, ...]:
    key = "ssl.enabled.protocols"
    named = (properties.text(key) or ",".join(TLS_VERSIONS)).split(",")
    wanted = {name.strip() for name in named}
    versions = tuple(version for version in TLS_VERSIONS if version in wanted)
    if not versions:
        raise properties.error(key, f"names neither of {' and '.join(TLS_VERSIONS)}; name one")
    return versions


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
