"""Stores objects in any store that has an fsspec client: S3 and compatible stores, and others.

The client finds the endpoint and credentials itself, in environment variables, profiles or roles;
Spark's workers use those of their own machine. Each client has its own exceptions, which are
recognized by their package, because any client may be missing.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future
from contextlib import contextmanager
from dataclasses import dataclass
from errno import ENOENT
from functools import cached_property, partial
from operator import methodcaller
from threading import Thread
from types import SimpleNamespace
from typing import Any, BinaryIO, TypeVar
from urllib.parse import urlsplit

from breakglass.services import patience
from breakglass.services.clock import NOTICE_SECONDS, WAITS
from breakglass.services.errors import BreakglassError, StorageError, UsageError
from breakglass.services.extras import how_to_install
from breakglass.services.topic_backup.folder import NewFile, State
from breakglass.services.topic_backup.store.blobs import range_file
from breakglass.services.words.inert import bounded

T = TypeVar("T")

CLIENTS = frozenset(
    {"adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "fsspec", "gcsfs", "google", "s3fs"}
)
"""Packages whose exceptions come from a store."""
MISREAD = (OSError, LookupError, RecursionError, TypeError, ValueError)
"""What clients raise, too: they trust that an answer has what S3's answers have."""
MAX_REASON = 300
"""Maximum length of a client's own text in a message, in characters."""

CREDENTIALS = (
    "give credentials where the store's own tools look for them (for S3: AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, a profile, or the machine's role)"
)
AGAIN = "check that the store answers and run the command again; what was committed is whole"


@contextmanager
def store_errors(where: str) -> Iterator[None]:
    """Convert a client's exception about *where* to a StorageError.

    Raises UsageError: the client is not installed, or does not accept the URL.
    """
    try:
        yield
    except BreakglassError:
        raise
    except ImportError as error:
        raise UsageError(
            f"{where}: its client is not installed ({error}); for s3:// run "
            f"`{how_to_install('s3')}`."
        ) from error
    except Exception as error:
        known = isinstance(error, MISREAD) or type(error).__module__.split(".")[0] in CLIENTS
        if not known:
            raise
        if isinstance(error, OSError):
            told = error.strerror or str(error)
        elif type(error).__module__ == "builtins":
            told = "its answer cannot be read"
        else:
            told = str(error)
        words = bounded(" ".join((told or type(error).__name__).split()), MAX_REASON).rstrip(".")
        raise StorageError(f"{where}: {words}; {_next_step(error)}.") from error


def _next_step(error: Exception) -> str:
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return CREDENTIALS
    if isinstance(error, FileNotFoundError):
        return "check the bucket and the name"
    if isinstance(error, PermissionError):
        return "check the credentials and what they allow"
    return AGAIN


BUFFER_BYTES = 256 * 1024
"""Small reads are combined to a request of this size; large reads are a request each."""
UPLOAD_BYTES = 16 * 1024 * 1024
"""Size of one part of an upload, which may have 10,000 parts."""
S3_OPTIONS = {
    "config_kwargs": {
        "retries": {"mode": "standard", "max_attempts": 3},
        "connect_timeout": 5,
        "read_timeout": 15,
    }
}
"""Retries refused and lost requests and 5xx responses, with growing waits. A store that becomes
silent in the middle of an upload is given up within two minutes.
"""
MOST_ANSWER_BYTES = 8 * 1024 * 1024
"""Of an answer that is no object: a page of a listing has a thousand names of 1 kB."""
MOST_MARKS = 100_000
"""Elements and attributes of such an answer: read into memory, each takes a hundred bytes."""
MOST_PAGES = 1_000
"""Of one listing: a million objects."""
BUCKET_REGION = "x-amz-bucket-region"
"""The header with which S3 itself redirects: the client knows the region's address."""
_RANGE = re.compile(rb"bytes=(\d+)-(\d+)")
S3_RETRIES = 2
"""Additional retries of s3fs, for responses that break off while they are read."""

BUCKETS = frozenset({"s3", "s3a", "gs", "gcs"})
"""Schemes in which a URL begins with a bucket."""
STATE_KEYS = ("ETag", "etag", "md5", "md5Hash", "content_md5", "generation")
"""Names of attributes that change with an object's bytes. Times are not used: many stores round
them to a second, in which an object can be replaced twice.
"""


_RAISED = object()


def bounded_session() -> type:
    """The client's way to a server, which takes no more of an answer than was asked for.

    A server that sends two gigabytes for a range of ten bytes would fill the memory, and one whose
    listing never ends, too.
    """
    from aiobotocore.httpsession import AIOHTTPSession  # type: ignore[import-untyped]

    class BoundedSession(AIOHTTPSession):  # type: ignore[misc]
        pages = 0

        async def send(self, request: Any) -> Any:
            query = urlsplit(request.url).query
            self.pages = self.pages + 1 if "continuation-token=" in query else 0
            if self.pages > MOST_PAGES:
                raise OSError(f"its listing has more than {MOST_PAGES:,} pages")
            request.stream_output, streamed = True, request.stream_output
            response = await super().send(request)
            try:
                if 300 <= response.status_code < 400 and BUCKET_REGION not in response.headers:
                    raise OSError("it sends this client elsewhere, which is not followed")
                if streamed and response.status_code < 300:
                    given = request.headers.get("Range", b"")
                    asked = _RANGE.fullmatch(given.encode() if isinstance(given, str) else given)
                    length = response.headers.get("Content-Length")
                    most = int(asked[2]) - int(asked[1]) + 1 if asked else None
                    if most is not None and (length is None or int(length) > most):
                        told = "bytes without end" if length is None else f"{int(length):,} bytes"
                        raise OSError(f"it sends {told} of {most:,} asked")
                    return response
                body = bytearray()
                async for piece in response.raw.content.iter_chunked(BUFFER_BYTES):
                    body += piece
                    if len(body) > MOST_ANSWER_BYTES:
                        raise OSError(f"it answers with more than {MOST_ANSWER_BYTES:,} bytes")
                marks = max(body.count(b"<"), body.count(b"=")) if response.status_code < 300 else 0
                if marks > MOST_MARKS or (marks and b"<!" in body):
                    raise OSError(
                        "it answers with more, or other, elements than a page of names has"
                    )
                response._content = bytes(body)
            except BaseException:
                response.raw.close()
                raise
            return response

        async def _get_session(self, proxy_url: str | None) -> Any:
            # A redirect would take records, and a session's token, to a host that the server names.
            session = await super()._get_session(proxy_url)
            return SimpleNamespace(request=partial(session.request, allow_redirects=False))

    return BoundedSession


def answered(where: str, seconds: float, act: Callable[[], T]) -> T:
    """The result of *act*, which asks the store of *where*.

    Clients have limits of their own, if any, for each request and each of its repetitions. One that
    hangs keeps its thread, which ends with the process.

    Raises StorageError: the store has not answered within *seconds*.
    """
    found: Future[T] = Future()

    def ask() -> None:
        try:
            found.set_result(act())
        except BaseException as error:  # noqa: BLE001 - raised to the caller
            found.set_exception(error)

    Thread(target=ask, name="store", daemon=True).start()
    WAITS.begin(found, lambda: f"{where} has not answered for {NOTICE_SECONDS:g} s")
    try:
        return found.result(seconds)
    except TimeoutError:
        if found.done():
            return found.result()
        told = f"{where}: no answer within {seconds:g} s, or only a part of one"
        raise StorageError(f"{told}; {AGAIN}.") from None
    finally:
        WAITS.end(found)


@dataclass(frozen=True)
class FsspecBlobs:
    """The objects below one URL."""

    url: str

    def where(self, name: str = "") -> str:
        return f"{self.url}/{name}" if name else self.url

    def names(self) -> list[str]:
        found = self._ask(lambda fs: fs.find(self._root), seconds=patience.STORE_BULK)
        below = f"{self._root}/"
        listed = dict.fromkeys(map(str, found))
        if not all(one.startswith(below) for one in listed):
            raise StorageError(
                f"{self.where()}: the store lists objects that are not below that address; check "
                "that it is your store"
            )
        return [one.removeprefix(below) for one in listed if one != below]

    def folders(self) -> list[str]:
        found = self._ask(lambda fs: fs.ls(self._root, detail=True), absent=None)
        if found is None:
            self._ask(self._require_bucket)
            return []
        paths = [str(one["name"]).rstrip("/") for one in found if one["type"] == "directory"]
        return [path.rpartition("/")[2] for path in paths]

    def _require_bucket(self, fs: Any) -> None:
        """Check that the bucket exists. Raises FileNotFoundError if it does not."""
        scheme, _, rest = self.url.partition("://")
        bucket = rest.partition("/")[0]
        try:
            there = scheme not in BUCKETS or fs.exists(bucket)
        except PermissionError:
            # Who may not look at the bucket may still read what is in it.
            return
        if not there:
            raise FileNotFoundError(ENOENT, f"there is no bucket {bucket}")

    def size(self, name: str) -> int | None:
        found = self._ask(lambda fs: fs.info(self._path(name)), name, absent=None)
        return None if found is None else int(found["size"])

    def state(self, name: str) -> State | None:
        found = self._ask(lambda fs: fs.info(self._path(name)), name, absent=None)
        if found is None:
            return None
        proofs = [f"{key} {found[key]}" for key in STATE_KEYS if found.get(key)]
        return (int(found["size"]), *proofs) if proofs else None

    def open(self, name: str) -> BinaryIO:
        size = int(self._ask(lambda fs: fs.info(self._path(name)), name)["size"])
        return range_file(partial(self.read, name), size, BUFFER_BYTES)

    def read(self, name: str, start: int, end: int) -> bytes:
        """The bytes ``[start, end)`` of an object."""
        seconds = patience.STORE if end - start <= BUFFER_BYTES else patience.STORE_BULK

        def read(fs: Any) -> bytes:
            found = bytes(fs.cat_file(self._path(name), start=start, end=end))
            if len(found) > end - start:
                raise OSError(f"it sends {len(found):,} bytes of {end - start:,} asked")
            return found

        return bytes(self._ask(read, name, seconds=seconds))

    def begin(self, name: str) -> NewFile:
        file = self._ask(lambda fs: fs.open(self._path(name), "wb", UPLOAD_BYTES), name)
        return _Upload(self, name, file)

    def create(self, name: str, content: bytes) -> bool:
        def created(fs: Any) -> bool:
            path = self._path(name)
            try:
                fs.pipe_file(path, content, mode="create")
            except OSError:
                # Either another object exists, or the response to this request was lost: the
                # content shows which.
                try:
                    return bool(fs.cat_file(path, start=0, end=len(content) + 1) == content)
                except FileNotFoundError:
                    pass
                raise
            return True

        return bool(self._ask(created, name))

    def remove(self, names: Sequence[str]) -> None:
        for name in names:
            self._ask(methodcaller("rm_file", self._path(name)), name, absent=None)

    def _ask(
        self,
        act: Callable[[Any], Any],
        name: str = "",
        *,
        seconds: float | None = None,
        absent: Any = _RAISED,
    ) -> Any:
        """What *act* gets from the store's client; *absent* in place of an object that is missing.

        Raises: StorageError.
        """
        where, limit = self.where(name), patience.STORE if seconds is None else seconds
        with store_errors(where):
            try:
                return answered(where, limit, lambda: act(self._fs))
            except FileNotFoundError:
                if absent is _RAISED:
                    raise
                return absent

    @cached_property
    def _opened(self) -> tuple[Any, str]:
        from fsspec.core import url_to_fs

        s3 = self.url.split(":", 1)[0] in ("s3", "s3a")
        session = {"http_session_cls": bounded_session()} if s3 else {}
        options = {"config_kwargs": {**S3_OPTIONS["config_kwargs"], **session}} if s3 else {}
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
        """Pickle only the URL: a client belongs to the process that opened it."""
        return {"url": self.url}


class _Upload:
    """An object that is being uploaded; a large object is uploaded in parts."""

    def __init__(self, blobs: FsspecBlobs, name: str, file: Any) -> None:
        self._blobs = blobs
        self._name = name
        self._where = blobs.where(name)
        self._file = file
        self._written = 0

    def write(self, data: memoryview) -> None:
        self._written += len(data)
        self._ask(lambda: self._file.write(data))

    def close(self) -> None:
        self._ask(self._file.close)

    def abandon(self) -> None:
        from fsspec.spec import AbstractBufferedFile

        if not isinstance(self._file, AbstractBufferedFile):
            self._blobs.remove([self._name])
            return
        # The garbage collector closes the file, which would create an object of the bytes so far.
        self._file.closed = True
        self._ask(self._file.discard)

    def _ask(self, act: Callable[[], object]) -> None:
        small = self._written <= BUFFER_BYTES
        with store_errors(self._where):
            answered(self._where, patience.STORE if small else patience.STORE_BULK, act)
