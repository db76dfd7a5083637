"""Flags, environment, profile and files: who wins, and what is said of it."""

import grp
import os
import pwd
import re
from collections.abc import Callable
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from breakglass.console.web.listener import server_tls
from breakglass.services.connection.properties import Properties, Property, read_private
from breakglass.services.connection.secret import Secret
from breakglass.services.connection.settings import ConnectionSettings, Endpoint
from breakglass.services.connection.sources import (
    BUILT_IN_PROVIDERS,
    ConnectionOptions,
    connection_settings,
    expand,
    without_variables,
)
from breakglass.services.errors import BadConnectionSettings
from breakglass.services.metastore.ksql_server import KsqlServer, server_url
from breakglass.services.topic_backup.store.blobs import read_key

SASL = (
    "security.protocol=SASL_PLAINTEXT\nsasl.mechanism=PLAIN\n"
    'sasl.jaas.config=x.PlainLoginModule required username="{}" password="hunter2";\n'
)
ENV_PROVIDER = "org.apache.kafka.common.config.provider.EnvVarConfigProvider"


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A config folder with the profile prod, its command config, and two others."""
    (tmp_path / "profiles.toml").write_text(
        """
        [prod]
        bootstrap.servers = "profile:1"
        client.id = "from-profile"
        command-config = "profile.properties"
        [prod.broker-address]
        1 = "profile:11"
        2 = "profile:12"
        [prod.listeners.vpn]
        bootstrap.servers = "vpn:1"
        """
    )
    for name in ("profile", "environment", "flag"):
        file = tmp_path / f"{name}.properties"
        file.write_text(SASL.format(name) + f"bootstrap.servers={name}-file:1\n")
        file.chmod(0o600)
    return tmp_path


def settle(
    folder: Path, environ: dict[str, str] | None = None, /, **flags: Any
) -> ConnectionSettings:
    """The settings of flags and environment; files are named without their folder."""
    variables = {f"BREAKGLASS_{name}": value for name, value in (environ or {}).items()}
    for held, key in ((flags, "command_config"), (variables, "BREAKGLASS_COMMAND_CONFIG")):
        if key in held:
            held[key] = str(folder / f"{held[key]}.properties")
    return connection_settings(ConnectionOptions(**flags), variables, folder)


@pytest.mark.parametrize(
    ("flags", "environ", "host"),
    [
        ({"bootstrap_server": "flag:1"}, {"BOOTSTRAP_SERVER": "environment:1"}, "flag"),
        ({"command_config": "flag"}, {"BOOTSTRAP_SERVER": "environment:1"}, "flag-file"),
        ({"bootstrap_server": "flag:1", "command_config": "flag"}, {}, "flag"),
        ({}, {"BOOTSTRAP_SERVER": "environment:1", "PROFILE": "prod"}, "environment"),
        ({}, {"COMMAND_CONFIG": "environment", "PROFILE": "prod"}, "environment-file"),
        ({"profile": "prod"}, {}, "profile"),
        ({"profile": "prod", "listener": "vpn"}, {}, "vpn"),
        ({}, {"PROFILE": "prod", "LISTENER": "vpn"}, "vpn"),
    ],
)
def test_flags_go_before_environment_before_profile(
    folder: Path, flags: dict[str, str], environ: dict[str, str], host: str
) -> None:
    assert settle(folder, environ, **flags).bootstrap_servers == (Endpoint(host, 1),)


def test_broker_addresses_come_from_a_file_with_the_names_of_certificates(tmp_path: Path) -> None:
    file = tmp_path / "addresses"
    file.write_text("# made by hand\n\n0 = localhost:19092/b0.prod.svc\n 1=localhost:19093\n")
    settings = settle(
        tmp_path,
        bootstrap_server="localhost:19092,localhost:19093",
        broker_address=(f"@{file}", "2=[::1]:19094/b2"),
    )
    assert settings.broker_addresses == {
        0: Endpoint("localhost", 19092, "b0.prod.svc"),
        1: Endpoint("localhost", 19093),
        2: Endpoint("::1", 19094, "b2"),
    }
    certified = [server.certified_name for server in settings.bootstrap_servers]
    assert certified == ["b0.prod.svc", "localhost"]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (None, "No such file"),
        (b"\xff=b:1", "not text"),
        (b"0=localhost", "'localhost'"),
        (b"0=a:1\n0=b:1", "gives broker 0 twice"),
    ],
)
def test_bad_address_files_are_refused(tmp_path: Path, content: bytes | None, said: str) -> None:
    file = tmp_path / "addresses"
    if content is not None:
        file.write_bytes(content)
    with pytest.raises(BadConnectionSettings) as refused:
        settle(tmp_path, bootstrap_server="b:1", broker_address=(f"@{file}",))
    assert said in str(refused.value)


@pytest.mark.parametrize(
    ("password", "mode", "noted"),
    [("hunter2", 0o644, True), ("hunter2", 0o600, False), ("${env:P}", 0o644, False)],
)
def test_a_readable_secret_is_noted(folder: Path, password: str, mode: int, noted: bool) -> None:
    declared = f"config.providers=env\nconfig.providers.env.class={ENV_PROVIDER}\n"
    file = folder / "flag.properties"
    file.write_text(SASL.format("ops").replace("hunter2", password) + declared)
    file.chmod(mode)
    flags = ConnectionOptions(bootstrap_server="b:1", command_config=str(file))
    notes = connection_settings(flags, {"P": "hunter2"}, folder).notes
    assert any("chmod 600" in note for note in notes) is noted


@pytest.mark.parametrize("password", ["hunter2", "${env:P}"])
@pytest.mark.parametrize(
    ("name", "mode", "refused"),
    [
        ("profiles.toml", 0o666, True),
        ("profiles.toml", 0o662, True),
        ("profile.properties", 0o602, True),
        (".", 0o777, True),
        (".", 0o1777, False),
        ("profiles.toml", 0o644, False),
    ],
)
def test_s10_a_secret_goes_nowhere_by_a_file_that_others_can_write(
    folder: Path, password: str, name: str, mode: int, refused: bool
) -> None:
    environ = {"P": "hunter2"}
    file = folder / "profile.properties"
    declared = f"config.providers=env\nconfig.providers.env.class={ENV_PROVIDER}\n"
    file.write_text(SASL.format("ops").replace("hunter2", password) + declared)
    (folder / name).chmod(mode)
    with pytest.raises(BadConnectionSettings) if refused else nullcontext() as found:
        connection_settings(ConnectionOptions(profile="prod"), environ, folder)
    assert "hunter2" not in str(found)
    file.write_text("client.id=no-secret\n")
    connection_settings(ConnectionOptions(profile="prod"), environ, folder)


def test_s10_a_group_of_others_can_write_and_the_owners_own_group_cannot(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = folder / "profile.properties"
    file.chmod(0o660)
    owner = pwd.getpwuid(os.getuid())
    for group, members, refused in (
        (owner.pw_gid, [], False),
        (owner.pw_gid, [owner.pw_name], False),
        (owner.pw_gid, ["another"], True),
        (owner.pw_gid + 1, [], True),
    ):
        found = grp.struct_group(("g", "x", group, members))
        monkeypatch.setattr(grp, "getgrgid", lambda _, found=found: found)
        with pytest.raises(BadConnectionSettings) if refused else nullcontext():
            settle(folder, profile="prod")


OAUTH = (
    "sasl.mechanism=OAUTHBEARER\nsasl.oauthbearer.token.endpoint.url={url}\n"
    'sasl.jaas.config=x.O required clientId="a" clientSecret="hunter2"{more};\n'
)
NAMED = {
    "addresses": "",
    "a trust store": "security.protocol=SASL_SSL\nssl.truststore.location={}\n",
    "a key store": "security.protocol=SASL_SSL\nssl.keystore.location={}\n",
    "a variable's file": "client.id=${{file:{}:b}}\n",
    "a variable's folder": "client.id=${{directory:{0.parent}:{0.name}}}\n",
    "a token": OAUTH.format(url="file://{}", more=""),
    "a provider's trust store": OAUTH.format(
        url="https://b/", more=' ssl.truststore.location="{}"'
    ),
}


@pytest.mark.parametrize("kind", NAMED)
def test_s10_every_file_that_a_secret_follows_is_this_accounts_own(
    tmp_path: Path, kind: str
) -> None:
    folder, own = tmp_path / "named", tmp_path / "own.properties"
    folder.mkdir()
    file, link = folder / "file", tmp_path / "link"
    file.write_text("b=b:1\n" if kind == "a variable's file" else "1=b:1")
    link.symlink_to(file)
    more = "config.providers=file,directory\n" + "".join(
        f"config.providers.{name.lower()}.class="
        f"org.apache.kafka.common.config.provider.{name}ConfigProvider\n"
        for name in ("File", "Directory")
    )

    def refused(named: Path) -> bool:
        own.write_text(SASL.format("ops") + more + NAMED[kind].format(named))
        own.chmod(0o600)
        addresses = (f"@{named}",) if kind == "addresses" else ()
        flags = {"bootstrap_server": "b:1", "command_config": "own", "broker_address": addresses}
        said = ""
        try:
            settle(tmp_path, **flags)
        except BadConnectionSettings as error:
            said = str(error)
        return f"other accounts can write {named}," in said and "hunter2" not in said

    for place, mode, shared in (
        (file, 0o602, True),
        (file, 0o644, False),
        (folder, 0o777, True),
        (folder, 0o1777, False),
        (folder, 0o755, False),
    ):
        place.chmod(mode)
        assert (refused(file), refused(link)) == (shared, shared)
    for place in (file, folder, link) if os.geteuid() == 0 else ():
        os.chown(place, 12345, -1, follow_symlinks=False)
        assert refused(link)
        os.chown(place, 0, -1, follow_symlinks=False)


@pytest.mark.parametrize(
    "read",
    [
        read_private,
        lambda file: server_tls(file, file),
        lambda file: read_key(str(file)),
        lambda file: KsqlServer(server_url("https://b"), ca=file).connected(1).__enter__(),
    ],
    ids=["a password or a token", "a server's key", "a key of backups", "authorities of ksqlDB"],
)
def test_s10_so_is_every_file_of_an_option(tmp_path: Path, read: Callable[[Path], object]) -> None:
    file = tmp_path / "file"
    file.write_bytes(b"k" * 32)
    file.chmod(0o600)
    tmp_path.chmod(0o777)
    with pytest.raises(BadConnectionSettings, match=re.escape(f"other accounts can write {file},")):
        read(file)


def test_s11_every_key_of_a_profile_that_nothing_reads_is_named(folder: Path) -> None:
    (folder / "profiles.toml").write_text(
        """
        [typo]
        bootstrap-server = "b:1"
        retries = 3
        [typo.broker-adress]
        1 = "b:2"
        """
    )
    unread = ("bootstrap-server", "retries", "broker-adress.1")
    with pytest.raises(BadConnectionSettings) as refused:
        settle(folder, profile="typo")
    notes = settle(folder, profile="typo", bootstrap_server="b:1").notes
    assert [note.split()[4] for note in notes] == list(unread)
    assert all(str(refused.value).count(f" {key} ") == 1 for key in unread)


@pytest.mark.parametrize("page", ["connecting.md", "kubernetes.md"])
def test_s11_a_profile_of_the_documentation_connects_as_it_stands(
    tmp_path: Path, page: str
) -> None:
    text = (Path(__file__).parents[3] / "docs" / page).read_text("utf-8")
    (written,) = re.findall(r"^```toml\n(.*?)^```", text, re.MULTILINE | re.DOTALL)
    (tmp_path / "profiles.toml").write_text(written)
    (tmp_path / "prod.properties").touch(0o600)
    settings = settle(tmp_path, profile="prod")
    assert settings.notes == ()
    assert settings.bootstrap_servers[0].host in text


@pytest.mark.parametrize(
    ("protocol", "mechanism", "noted"),
    [
        ("SASL_PLAINTEXT", "PLAIN", True),
        ("SASL_SSL", "PLAIN", False),
        ("SASL_PLAINTEXT", "SCRAM-SHA-256", False),
    ],
)
def test_s42_a_password_that_goes_in_clear_to_addresses_of_the_metadata_is_noted(
    folder: Path, protocol: str, mechanism: str, *, noted: bool
) -> None:
    module = "PlainLoginModule" if mechanism == "PLAIN" else "ScramLoginModule"
    login = f'sasl.jaas.config=x.{module} required username="a" password="hush";'
    text = f"security.protocol={protocol}\nsasl.mechanism={mechanism}\n{login}\n"
    file = folder / "flag.properties"
    file.write_text(text)
    file.chmod(0o600)
    options = ConnectionOptions(bootstrap_server="b:1", command_config=str(file))
    assert bool(connection_settings(options, {}, folder).notes) is noted


def test_another_cluster_gets_nothing_of_the_environments_own() -> None:
    names = ("BOOTSTRAP_SERVER", "COMMAND_CONFIG", "PROFILE", "BROKER_ADDRESS")
    environ = {f"BREAKGLASS_{name}": "environment:1" for name in names}
    assert without_variables({**environ, "SECRET": "s"}) == {"SECRET": "s"}


def properties(values: dict[str, str]) -> Properties:
    held = {key: Property(Secret(value), f"f line {key}") for key, value in values.items()}
    return Properties(held, "f")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("${env:PASSWORD}", "hunter2"),
        ('user="x" password="${env:PASSWORD}";', 'user="x" password="hunter2";'),
        ("${env:PASSWORD}${env:USER}", "hunter2ops"),
        ("${other:PASSWORD}", "${other:PASSWORD}"),
        ("$PASSWORD {env:PASSWORD}", "$PASSWORD {env:PASSWORD}"),
    ],
)
def test_the_environment_fills_in_variables(text: str, value: str) -> None:
    environ = {"PASSWORD": "hunter2", "USER": "ops"}
    assert expand(properties({"k": text}), environ, BUILT_IN_PROVIDERS).text("k") == value


@pytest.mark.parametrize(
    "text",
    [
        "${env:MISSING}",
        "${env:path:PASSWORD}",
        "${file:/nowhere:key}",
        "${directory:/nowhere:key}",
        "${directory:/etc:../etc/hostname}",
    ],
)
def test_a_variable_without_a_value_is_refused_with_its_place(text: str) -> None:
    with pytest.raises(BadConnectionSettings, match=r"^f line k: k "):
        expand(properties({"k": text}), {"PASSWORD": "x"}, BUILT_IN_PROVIDERS)


def test_a_properties_file_declares_its_providers_and_other_variables_stay() -> None:
    declared = {
        "config.providers": "vars",
        "config.providers.vars.class": ENV_PROVIDER,
        "k": "${vars:PASSWORD}${env:PASSWORD}",
    }
    assert expand(properties(declared), {"PASSWORD": "x"}).text("k") == "x${env:PASSWORD}"


@pytest.mark.parametrize("name", [None, "com.example.VaultConfigProvider"])
def test_a_provider_we_do_not_have_is_refused(name: str | None) -> None:
    declared = {"config.providers": "vault", "config.providers.vault.class": name or ""}
    with pytest.raises(BadConnectionSettings, match=r"config\.providers\.vault\.class"):
        expand(properties(declared), {})
