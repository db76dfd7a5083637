"""The stores that a client of Kafka's keeps certificates in, as properties that name them."""

from collections.abc import Callable
from pathlib import Path

from tests.unit.connection.certificates import Identity

Stores = Callable[[Path, Identity, Identity], str]


def pkcs12(folder: Path, root: Identity, client: Identity, *, legacy: bool = False) -> str:
    """Properties that name PKCS12 stores."""
    (folder / "trust.p12").write_bytes(root.trust_store("tpass"))
    (folder / "key.p12").write_bytes(client.key_store("kpass", legacy=legacy))
    return (
        f"ssl.truststore.location={folder}/trust.p12\nssl.truststore.password=tpass\n"
        f"ssl.keystore.location={folder}/key.p12\nssl.keystore.password=kpass\n"
    )


def pkcs12_legacy(folder: Path, root: Identity, client: Identity) -> str:
    """Properties that name PKCS12 stores with the ciphers of Java 8."""
    return pkcs12(folder, root, client, legacy=True)


def pem_files(folder: Path, root: Identity, client: Identity) -> str:
    """Properties that name PEM files, the key encrypted."""
    (folder / "trust.pem").write_text(root.pem)
    (folder / "key.pem").write_text(client.key_pem("kpass") + client.chain_pem)
    return (
        f"ssl.truststore.type=PEM\nssl.truststore.location={folder}/trust.pem\n"
        f"ssl.keystore.type=PEM\nssl.keystore.location={folder}/key.pem\nssl.key.password=kpass\n"
    )


def pem_inline(folder: Path, root: Identity, client: Identity) -> str:
    """Properties that hold PEM themselves, the key in the clear."""

    def continued(pem: str) -> str:
        return " \\\n  ".join(pem.strip().split("\n"))

    return (
        f"ssl.truststore.type=PEM\nssl.truststore.certificates={continued(root.pem)}\n"
        f"ssl.keystore.type=PEM\nssl.keystore.key={continued(client.key_pem())}\n"
        f"ssl.keystore.certificate.chain={continued(client.chain_pem)}\n"
    )
