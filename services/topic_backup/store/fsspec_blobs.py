"""Objects of any store that fsspec has a client for: S3 and what speaks it, others by their URL.

Where and with which credentials is the client's own affair: its environment variables, profiles
and roles. Workers of Spark look for theirs where they run.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from functools import cached_property, partial
from typing import Any, BinaryIO

from breakglass.services.topic_backup.folder import NewFile, State
from breakglass.services.topic_backup.store.range_file import range_file
from breakglass.services.topic_backup.store.store_errors import store_errors

BUFFER_BYTES = 256 * 1024
"""Small reads are gathered to one request of this size; large ones are a request each."""
UPLOAD_BYTES = 16 * 1024 * 1024
"""Of one piece of an upload: 10,000 of them are allowed."""
S3_OPTIONS = {
    "config_kwargs": {
        "retries": {"mode": "standard", "max_attempts": 4},
        "connect_timeout": 10,
        "read_timeout": 60,
    }
}
"""Refused and lost requests, and answers of 5xx, are tried again, with growing waits between."""
S3_RETRIES = 2
"""Of s3fs beyond that: answers that break off while they are read."""

STATE_KEYS = ("ETag", "etag", "md5", "md5Hash", "content_md5", "generation")
"""How stores name what changes with an object's bytes. Times do not count: many stores round
them to a second, in which an object can be replaced twice.
"""


@dataclass(frozen=True)
class FsspecBlobs:
    """The objects below one URL."""

    url: str

    def where(self, name: str = "") -> str:
        return f"{self.url}/{name}" if name else self.url

    def names(self) -> list[str]:
        with self._errors():
            found = self._fs.find(self._root)
        start = len(self._root) + 1
        return [str(one)[start:] for one in found]

    def folders(self) -> list[str]:
        """The names of the folders directly below."""
        with self._errors():
            try:
                found = self._fs.ls(self._root, detail=True)
            except FileNotFoundError:
                return []
        paths = [str(one["name"]).rstrip("/") for one in found if one["type"] == "directory"]
        return [one.rpartition("/")[2] for one in paths]

    def size(self, name: str) -> int | None:
        with self._errors(name):
            try:
                return int(self._fs.info(self._path(name))["size"])
            except FileNotFoundError:
                return None

    def state(self, name: str) -> State | None:
        with self._errors(name):
            try:
                found = self._fs.info(self._path(name))
            except FileNotFoundError:
                return None
        proofs = [f"{key} {found[key]}" for key in STATE_KEYS if found.get(key)]
        return (int(found["size"]), *proofs) if proofs else None

    def open(self, name: str) -> BinaryIO:
        with self._errors(name):
            size = int(self._fs.info(self._path(name))["size"])
        return range_file(partial(self.read, name), size, BUFFER_BYTES)

    def read(self, name: str, start: int, end: int) -> bytes:
        """The bytes ``[start, end)`` of an object."""
        with self._errors(name):
            return bytes(self._fs.cat_file(self._path(name), start=start, end=end))

    def begin(self, name: str) -> NewFile:
        with self._errors(name):
            return _Upload(self, name, self._fs.open(self._path(name), "wb", UPLOAD_BYTES))

    def create(self, name: str, content: bytes) -> bool:
        with self._errors(name):
            try:
                self._fs.pipe_file(self._path(name), content, mode="create")
            except OSError:
                # Refused, or done by a request whose answer was lost: what is there tells which.
                try:
                    return bool(self._fs.cat_file(self._path(name)) == content)
                except FileNotFoundError:
                    pass
                raise
            return True

    def remove(self, names: Sequence[str]) -> None:
        with self._errors():
            for name in names:
                try:
                    self._fs.rm_file(self._path(name))
                except FileNotFoundError:
                    continue

    @contextmanager
    def _errors(self, name: str = "") -> Iterator[None]:
        with store_errors(self.where(name)):
            yield

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        s3 = self.url.split(":", 1)[0] in ("s3", "s3a")
        options = S3_OPTIONS if s3 else {}
        fs, root = url_to_fs(self.url, use_listings_cache=False, **options)
        if s3:
            fs.retries = S3_RETRIES
        return fs, str(root).rstrip("/")

    @property
    def _fs(self) -> Any:
        return self._opened[0]

    @property
    def _root(self) -> str:
        return self._opened[1]

    def _path(self, name: str) -> str:
        return f"{self._root}/{name}"

    def __getstate__(self) -> dict[str, str]:
        """The URL alone: a client belongs to the process that opened it."""
        return {"url": self.url}


class _Upload:
    """An object on its way, in pieces where it is large."""

    def __init__(self, blobs: FsspecBlobs, name: str, file: Any) -> None:
        self._blobs = blobs
        self._name = name
        self._where = blobs.where(name)
        self._file = file

    def write(self, data: memoryview) -> None:
        with store_errors(self._where):
            self._file.write(data)

    def close(self) -> None:
        with store_errors(self._where):
            self._file.close()

    def abandon(self) -> None:
        from fsspec.spec import AbstractBufferedFile

        if not isinstance(self._file, AbstractBufferedFile):
            self._blobs.remove([self._name])
            return
        # Closing, as the garbage collector would, makes an object of what was written so far.
        self._file.closed = True
        with store_errors(self._where):
            self._file.discard()
