"""What a store's client raises, as an error that says what to do.

Every client has exceptions of its own, and which ones depends on what is installed: they are
known by the package that defines them.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from breakglass.services.errors import BreakglassError, StorageError, UsageError

CLIENTS = frozenset(
    {"adlfs", "aiobotocore", "aiohttp", "azure", "botocore", "fsspec", "gcsfs", "google", "s3fs"}
)
"""Packages whose exceptions are the store's answers."""
MAX_REASON = 300
"""Characters of a client's own words that a message holds."""

CREDENTIALS = (
    "give credentials where the store's own tools look for them (for S3: AWS_ACCESS_KEY_ID and "
    "AWS_SECRET_ACCESS_KEY, a profile, or the machine's role)"
)
AGAIN = "check that the store answers and run the command again; what was committed is whole"


@contextmanager
def store_errors(where: str) -> Iterator[None]:
    """Turn what a client raises about *where* into a StorageError.

    Raises:
        UsageError: the client is not installed, or has no use for such a URL.
    """
    try:
        yield
    except BreakglassError:
        raise
    except ImportError as error:
        raise UsageError(
            f"{where}: its client is not installed ({error}); for s3:// run "
            "`pip install 'breakglass[s3]'`."
        ) from error
    except Exception as error:
        if not _of_client(error):
            raise
        raise StorageError(f"{where}: {_reason(error)}; {_next_step(error)}.") from error


def _of_client(error: Exception) -> bool:
    return isinstance(error, OSError) or type(error).__module__.split(".")[0] in CLIENTS


def _reason(error: Exception) -> str:
    told = error.strerror if isinstance(error, OSError) else None
    words = " ".join((told or str(error) or type(error).__name__).split())
    return words[:MAX_REASON].rstrip(".")


def _next_step(error: Exception) -> str:
    if type(error).__name__ in ("NoCredentialsError", "PartialCredentialsError"):
        return CREDENTIALS
    if isinstance(error, FileNotFoundError):
        return "check the bucket and the name"
    if isinstance(error, PermissionError):
        return "check the credentials and what they allow"
    return AGAIN
