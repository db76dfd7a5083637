"""What an operator types to name a backup."""

from pathlib import Path

import pytest

from breakglass.services.errors import UsageError
from breakglass.services.topic_backup.address import partition_of
from breakglass.services.topic_backup.store.store import ObjectStore, open_store
from tests.unit.topic_backup.backups import back_up
from tests.unit.topic_backup.shapes import run


def test_other_urls_are_those_of_stores_without_credentials() -> None:
    assert open_store("s3://bucket/prefix/") == ObjectStore("s3://bucket/prefix")
    for url in ("file://elsewhere/b", "s3://AKIA:hidden@bucket/prefix"):
        with pytest.raises(UsageError) as refused:
            open_store(url)
        assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("address", ["orders", "orders/x", "orders/1", "payments/0", "a b/0"])
def test_what_is_not_there_is_told(tmp_path: Path, address: str) -> None:
    back_up(tmp_path, run(0, 3))
    with pytest.raises(UsageError):
        partition_of(f"{tmp_path}/{address}")
