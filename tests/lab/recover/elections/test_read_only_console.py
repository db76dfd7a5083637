"""Nothing but reads reaches a broker from a read-only console, whatever is pressed."""

from collections.abc import Iterator

import pytest

from breakglass.console.app import MODES, BreakglassApp
from breakglass.console.console import make_context
from breakglass.console.look import LookOptions, decide_look
from breakglass.console.wiring import Connection
from breakglass.services.connection.profiles import default_folder
from breakglass.services.connection.sources import ConnectionOptions
from breakglass.services.kafka.wire import api_keys
from tests.lab.recover.elections.conftest import VERSIONS
from tests.lab.recover.session import Watched, watched
from tests.lab.scenarios.damaged import Damaged
from tests.screens.every_key import press_every_key
from tests.screens.turns import text, until


@pytest.fixture
def brokers(lab: Damaged) -> Iterator[Watched]:
    with watched(lab.cluster) as brokers:
        yield brokers


@pytest.mark.parametrize("lab", VERSIONS[:1], indirect=True)
async def test_a_read_only_console_sends_reads_alone_whatever_is_pressed(brokers: Watched) -> None:
    look = decide_look(LookOptions(), default_folder())
    # One that leads to every broker by its proxy alone.
    addresses = {broker: str(proxy.address) for broker, proxy in brokers.proxies.items()}
    options = ConnectionOptions(
        bootstrap_server=",".join(addresses[broker] for broker in (1, 2)),
        broker_address=tuple(f"{broker}={address}" for broker, address in addresses.items()),
    )
    context = make_context(Connection(options), (), look)
    console = BreakglassApp(context, theme=look.theme)
    async with console.run_test(size=(80, 24)) as pilot:
        await until(pilot, lambda: "orders" in text(console), "the offline partitions")
        pressed = await press_every_key(pilot)
        context.close()
    assert len(pressed) > len(MODES)
    sent = {request.api_key for request in brokers.sent}
    assert sent - {api_keys.API_VERSIONS}
    assert sent <= (api_keys.READ | {api_keys.API_VERSIONS})
