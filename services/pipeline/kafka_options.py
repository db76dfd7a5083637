"""Connection settings in Kafka's own keys, for the clients within the JVM.

Keys and certificates go as PEM, read once: no path has to exist on a worker.
"""

from __future__ import annotations

from services.connection.sasl import KerberosLogin, PasswordLogin, SaslSettings
from services.connection.settings import ConnectionSettings
from services.connection.tls import TlsSettings
from services.errors import BadConnectionSettings

_MODULES = {
    "PLAIN": "org.apache.kafka.common.security.plain.PlainLoginModule",
    "SCRAM-SHA-256": "org.apache.kafka.common.security.scram.ScramLoginModule",
    "SCRAM-SHA-512": "org.apache.kafka.common.security.scram.ScramLoginModule",
}
_KERBEROS = (
    "com.sun.security.auth.module.Krb5LoginModule required useTicketCache=true "
    "doNotPrompt=true renewTGT=true;"
)


def java_properties(settings: ConnectionSettings) -> dict[str, str]:
    """What a Java client is given. Holds secrets.

    Brokers are reached as they advertise themselves: addresses given for single brokers are not
    followed.

    Raises:
        BadConnectionSettings: OAuth, whose tokens the JVM would have to fetch by itself.
    """
    found = {
        "bootstrap.servers": ",".join(map(str, settings.bootstrap_servers)),
        "client.id": settings.client_id,
        "client.dns.lookup": settings.dns_lookup,
        "security.protocol": settings.security_protocol.value,
        "request.timeout.ms": str(settings.request_timeout_ms),
        "socket.connection.setup.timeout.ms": str(settings.connect_timeout_ms),
    }
    if settings.tls is not None:
        found |= _tls(settings.tls)
    if settings.sasl is not None:
        found |= _sasl(settings.sasl)
    return found


def _tls(tls: TlsSettings) -> dict[str, str]:
    found = {
        "ssl.endpoint.identification.algorithm": "https" if tls.check_hostname else "",
        "ssl.enabled.protocols": ",".join(tls.versions),
    }
    if tls.trusted_pem is not None:
        found |= {"ssl.truststore.type": "PEM", "ssl.truststore.certificates": tls.trusted_pem}
    if tls.certificate is not None:
        found |= {
            "ssl.keystore.type": "PEM",
            "ssl.keystore.certificate.chain": tls.certificate.chain_pem,
            "ssl.keystore.key": tls.certificate.key_pem.reveal(),
        }
        if tls.certificate.key_password is not None:
            found["ssl.key.password"] = tls.certificate.key_password.reveal()
    return found


def _sasl(sasl: SaslSettings) -> dict[str, str]:
    found = {"sasl.mechanism": sasl.mechanism}
    if isinstance(sasl.login, PasswordLogin):
        username, password = sasl.login.username, sasl.login.password.reveal()
        login = f"username={_quoted(username)} password={_quoted(password)}"
        found["sasl.jaas.config"] = f"{_MODULES[sasl.mechanism]} required {login};"
    elif isinstance(sasl.login, KerberosLogin):
        found["sasl.kerberos.service.name"] = sasl.login.service_name
        found["sasl.jaas.config"] = _KERBEROS
    else:
        raise BadConnectionSettings(
            "Spark cannot read with sasl.mechanism OAUTHBEARER here: choose another one for it"
        )
    return found


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"')
    return f'"{escaped}"'
