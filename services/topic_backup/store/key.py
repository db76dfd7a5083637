"""Reads the key of encrypted backups from a file or an environment variable."""

from __future__ import annotations

import base64
import binascii
import os
import re
from collections.abc import MutableMapping
from pathlib import Path

from breakglass.services.connection.properties import require_own
from breakglass.services.errors import UsageError
from breakglass.services.regular_file import open_regular
from breakglass.services.topic_backup.folder import storage_errors

KEY_BYTES = 32
ENVIRONMENT = "env:"
MAX_FILE_BYTES = 4096
_HEX = re.compile(rb"[0-9a-fA-F]{64}")
_FORMS = "32 bytes as they are, in hex or in base64 (`openssl rand -hex 32` makes one)"


class Key:
    """32 secret bytes. Spark's workers get the key; it is never printed or written as JSON."""

    __slots__ = ("_content",)

    def __init__(self, content: bytes) -> None:
        if len(content) != KEY_BYTES:
            raise UsageError(f"a key has {KEY_BYTES} bytes, this one has {len(content)}.")
        self._content = content

    def derived(self, salt: bytes, purpose: bytes) -> bytes:
        """32 bytes for one *purpose*, derived by HKDF-SHA256; they do not reveal the key."""
        from cryptography.hazmat.primitives.hashes import SHA256
        from cryptography.hazmat.primitives.kdf.hkdf import HKDF

        return HKDF(SHA256(), KEY_BYTES, salt, purpose).derive(self._content)

    @property
    def id(self) -> bytes:
        """8 bytes that identify the key."""
        return self.derived(b"", b"breakglass key id")[:8]

    def __repr__(self) -> str:
        return "Key(***)"


_TAKEN: dict[str, Key] = {}
"""The keys that were variables of this process: its children do not inherit them."""


def read_key(source: str, environment: MutableMapping[str, str] = os.environ) -> Key:
    """The key in the file *source*, or in the variable NAME of ``env:NAME``, which it takes away.

    Raises:
        UsageError: there is no key, or it is invalid, or other accounts can write its file.
        StorageError: the file cannot be read.
    """
    if source.startswith(ENVIRONMENT):
        name = source.removeprefix(ENVIRONMENT)
        if text := environment.get(name):
            _TAKEN[name] = Key(_decoded(text.encode(), f"the environment's {name}"))
            del environment[name]
        if name not in _TAKEN:
            raise UsageError(f"the environment has no {name}: set it to the key, or name a file.")
        return _TAKEN[name]
    path = Path(source)
    if not path.is_file():
        raise UsageError(f"{path} is no file: name the file that holds the key, or env:NAME.")
    require_own(path)
    with storage_errors(source), open_regular(path) as file:
        content = file.read(MAX_FILE_BYTES + 1)
    return Key(_decoded(content, source))


def _decoded(content: bytes, where: str) -> bytes:
    if len(content) == KEY_BYTES:
        return content
    text = content.strip()
    if _HEX.fullmatch(text):
        return bytes.fromhex(text.decode())
    try:
        found = base64.b64decode(text, validate=True)
    except binascii.Error:
        found = b""
    if len(found) != KEY_BYTES:
        raise UsageError(f"{where} holds no key: put there {_FORMS}.")
    return found
