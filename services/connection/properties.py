"""Reads Kafka client properties in Java's file syntax, with the place of each value."""

from __future__ import annotations

import grp
import os
import pwd
import stat
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from breakglass.services.connection.secret import Secret
from breakglass.services.errors import BadConnectionSettings, Refused, UsageError
from breakglass.services.regular_file import SETTINGS_BYTES, open_regular, read_given

_JAVA_SPACES = "".join(map(chr, range(33)))
"""What String.trim() removes: ConfigDef.parseType trims every value, passwords too."""
LARGEST_SECRET = 4096
"""Bytes of a file that holds a password or a token."""


@dataclass(frozen=True, slots=True)
class Property:
    """One value, kept as a secret, because any value may be one."""

    value: Secret
    origin: str
    """Where it was written, for an operator: ``client.properties line 7``."""
    folder: Path = field(default_factory=Path)
    """Where a relative path in it starts; Kafka's own tools start at the working directory."""
    files: tuple[Path, ...] = ()
    """Files that variables in it were read from."""


class Properties(Mapping[str, Property]):
    """Settings by Kafka's own keys. An empty value counts as missing, unless read with `raw`."""

    def __init__(self, entries: Mapping[str, Property], name: str) -> None:
        self._entries = dict(entries)
        self.name = name
        """The source as a whole: ``client.properties``, ``profile prod``."""

    def __getitem__(self, key: str) -> Property:
        return self._entries[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._entries)

    def __len__(self) -> int:
        return len(self._entries)

    def raw(self, key: str) -> str | None:
        """The trimmed value, which may be empty; None when the key is missing."""
        entry = self.get(key)
        return None if entry is None else entry.value.reveal().strip(_JAVA_SPACES)

    def text(self, key: str, default: str | None = None) -> str | None:
        """The trimmed value, or *default* when it is missing or empty."""
        return self.raw(key) or default

    def secret(self, key: str) -> Secret | None:
        """The trimmed value as a secret, or None when it is missing or empty."""
        return Secret(self.raw(key) or "") or None

    def path(self, key: str) -> Path | None:
        """The value as a path, or None when it is missing or empty."""
        text = self.text(key)
        return None if text is None else self[key].folder / text

    def number(self, key: str, default: int) -> int:
        """The value as a whole number above 0.

        Raises: BadConnectionSettings.
        """
        text = self.text(key)
        if text is None:
            return default
        if not text.isascii() or not text.isdigit() or int(text) == 0:
            raise self.error(key, f"is {text!r}; write a whole number above 0")
        return int(text)

    def flag(self, key: str) -> bool:
        """The value as true or false; false when it is missing.

        Raises: BadConnectionSettings.
        """
        return self.choice(key, ("true", "false"), "false") == "true"

    def choice(self, key: str, allowed: tuple[str, ...], default: str) -> str:
        """The value as one of *allowed*, in any case.

        Raises: BadConnectionSettings.
        """
        text = self.text(key, default) or default
        for value in allowed:
            if value.lower() == text.lower():
                return value
        raise self.error(key, f"is {text!r}; choose one of {', '.join(allowed)}")

    def error(self, key: str, problem: str) -> BadConnectionSettings:
        """The error, for the caller to raise, of *problem* with *key* and its place.

        *problem* must not quote a value that may be a secret.
        """
        entry = self.get(key)
        return BadConnectionSettings(f"{entry.origin if entry else self.name}: {key} {problem}.")


def read_properties(path: Path) -> Properties:
    """Read a client properties file, as Latin-1 like Kafka's own tools (Utils.loadProps).

    Later lines win over earlier ones with the same key.

    Raises: BadConnectionSettings for a file that cannot be read, with the line where there is one.
    """
    entries, problem = _entries(path)
    if problem:
        raise BadConnectionSettings(problem)
    return Properties(entries, path.name)


def _entries(path: Path) -> tuple[dict[str, Property], str]:
    """The entries of a file, and what is wrong with it.

    Returns the problem instead of raising it: a traceback would contain the file's passwords.
    """
    try:
        data = read_given(path, SETTINGS_BYTES)
    except OSError as error:
        return {}, f"{path} cannot be read ({error.strerror}): check the path and its rights."
    entries, broken_line = _parse(data, path.name)
    if broken_line:
        return {}, (
            f"{path.name} line {broken_line}: a \\u escape needs four hexadecimal digits; "
            "write \\\\u for a backslash and a u."
        )
    return entries, ""


def _parse(data: bytes, name: str) -> tuple[dict[str, Property], int]:
    """The entries of a file, and the line of the first broken escape, or 0."""
    import javaproperties

    entries: dict[str, Property] = {}
    line = 1
    try:
        for element in javaproperties.parse(data):
            if isinstance(element, javaproperties.KeyValue):
                entries[element.key] = Property(Secret(element.value), f"{name} line {line}")
            # How many line ends of any of the three kinds source has.
            line += (
                element.source.count("\n")
                + element.source.count("\r")
                - element.source.count("\r\n")
            )
    except javaproperties.InvalidUEscapeError:
        return {}, line
    return entries, 0


def overlay(layers: Iterable[Properties], name: str) -> Properties:
    """Several sources as one, the first one that has a key winning.

    Security settings (``security.*``, ``sasl.*``, ``ssl.*``) go together: all come from the first
    source that has any of them, so that no password of one source meets the truststore or the
    mechanism of another.
    """
    entries: dict[str, Property] = {}
    security_from: Properties | None = None
    for layer in layers:
        if security_from is None and any(is_security_key(key) for key in layer):
            security_from = layer
        for key, entry in layer.items():
            if not is_security_key(key) or layer is security_from:
                entries.setdefault(key, entry)
    return Properties(entries, security_from.name if security_from else name)


def is_security_key(key: str) -> bool:
    """Whether *key* is about how client and broker authenticate each other."""
    return key.startswith(("security.", "sasl.", "ssl."))


def require_own(*paths: Path) -> None:
    """Return unless another account could have written one of *paths*, or can replace it.

    These files decide where a secret is sent, or whom it is shown to. A group of the owner's own,
    as Linux gives each user, is no other account. What cannot be looked at is not judged.

    Raises: BadConnectionSettings.
    """
    for path in paths:
        target = Path(os.path.realpath(path))
        with suppress(OSError):
            own = _is_own(os.lstat(path)) and _is_own(os.stat(target))
            if not (own and all(_is_own(os.stat(at.parent)) for at in (path, target))):
                raise BadConnectionSettings(
                    f"other accounts can write {path}, and could have your secrets sent to a place "
                    "of theirs: look at what is in it, then `chown` it and `chmod 600` it, and "
                    "keep it in a folder that is yours to write alone."
                )


def read_private(path: Path) -> str:
    """The text of a file that holds one secret.

    Raises:
        BadConnectionSettings: other accounts can write it.
        Refused: they can read it.
        UsageError: it cannot be read, or is too large for a secret.
    """
    try:
        with open_regular(path) as file:
            # Of the open file: its name may lead to another file a moment later.
            if os.fstat(file.fileno()).st_mode & 0o077:
                raise Refused(
                    f"{path} can be read by other users, who would have the secret: `chmod 600` "
                    "it, and make a new one if they may have read it"
                )
            content = file.read(LARGEST_SECRET + 1)
    except OSError as error:
        raise UsageError(f"{path} cannot be read ({error.strerror}): check its name.") from None
    if len(content) > LARGEST_SECRET:
        raise UsageError(f"{path} has more than {LARGEST_SECRET:,} bytes, and is no secret.")
    require_own(path)
    return content.decode("utf-8", "replace")


def _is_own(found: os.stat_result) -> bool:
    """Whether only this account and root can write what was *found*: a file, a folder, a link."""
    if found.st_uid not in (os.geteuid(), 0):
        return False
    # Everybody can write a link by its mode, and nobody can: others can be replaced in its folder.
    sticky = stat.S_ISDIR(found.st_mode) and found.st_mode & stat.S_ISVTX
    if sticky or stat.S_ISLNK(found.st_mode):
        return True
    shared = found.st_mode & 0o020 and not _is_own_group(found)
    return not (shared or found.st_mode & 0o002)


def _is_own_group(found: os.stat_result) -> bool:
    """Whether nobody but the owner is in the group of a file."""
    try:
        owner, group = pwd.getpwuid(found.st_uid), grp.getgrgid(found.st_gid)
    except KeyError:
        return False
    return owner.pw_gid == group.gr_gid and set(group.gr_mem) <= {owner.pw_name}


def readable_by_others(path: Path) -> bool:
    """Whether users other than the owner may read *path*; False if that is not known."""
    try:
        return bool(os.stat(path).st_mode & 0o044)
    except OSError:
        return False
