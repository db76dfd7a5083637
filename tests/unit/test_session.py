"""What a session may send: reads, unless it was begun with power."""

from contextlib import closing

import pytest

from breakglass.services.connection.endpoint import Endpoint
from breakglass.services.connection.settings import ConnectionSettings
from breakglass.services.kafka.wire import api_keys
from breakglass.services.kafka.wire.native_rpc import native_key
from breakglass.services.session import ReadAccess


@pytest.mark.parametrize("native_rpc", ["auto", "off"])
def test_a_session_that_reads_makes_no_sender_that_changes_anything(native_rpc: str) -> None:
    settings = ConnectionSettings((Endpoint("127.0.0.1", 1),))
    with closing(ReadAccess(settings, native_rpc).client()) as client:
        reads = api_keys.READ | {native_key(native_rpc), api_keys.API_VERSIONS}
        assert client.sender.allowed <= reads
