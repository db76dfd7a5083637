"""R22: what it takes to end a transaction, and to be told what a dead broker would lose."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from breakglass.services.lab.properties import OPERATOR
from breakglass.services.lab.topics import elect_unclean
from breakglass.services.model import TopicPartition
from tests.kit.access import Acl, Operation, Resource
from tests.kit.acl_page import acls_of, allowed
from tests.kit.client_properties import write_client_properties
from tests.lab.asking import consume
from tests.lab.scenarios.damaged import Damaged, damaged

BILLING = TopicPartition("billing", 0)
LIST, FINISH = (("transactions", text, "--topic", "billing") for text in ("list", "finish"))
SINCE = 5
"""Records that b3 alone has, past the marker."""


@pytest.fixture(scope="module")
def lab(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Damaged]:
    with damaged(tmp_path_factory.mktemp("lab"), "hanging-transaction", secured=True) as lab:
        elect_unclean(lab.cluster, BILLING)
        lab.cluster.wait_partition("billing", 0, lambda state: state.leader == 2, "b2 to lead")
        yield lab


@pytest.fixture(scope="module")
def config(lab: Damaged) -> Path:
    return write_client_properties(lab.cluster.layout, OPERATOR)


@pytest.mark.parametrize(
    "acls",
    [
        pytest.param([], id="no topic is shown"),
        pytest.param(
            [Acl(OPERATOR, Operation.READ, Resource.TOPIC, "another")], id="this topic is hidden"
        ),
    ],
)
def test_r22_what_an_acl_hides_is_unknown_and_not_absent(
    lab: Damaged, config: Path, acls: list[Acl]
) -> None:
    listed = allowed(lab.cluster, config, acls, "after", "transactions", "list")
    assert listed.code == 0, listed.err
    assert "No transaction is open on the partitions that could be read." in listed.err
    (reason,) = [line for line in listed.said if line.startswith("? ")]
    assert "are not known" in reason
    assert "grant READ on topics" in reason
    document = allowed(
        lab.cluster, config, acls, "after", "transactions", "list", "--json"
    ).document
    assert (document["open"], len(document["unknown"])) == ([], 1)


def test_r22_who_may_read_every_topic_is_told_what_is_open(lab: Damaged, config: Path) -> None:
    acls = [Acl(OPERATOR, Operation.READ, Resource.TOPIC, "*")]
    document = allowed(
        lab.cluster, config, acls, "after", "transactions", "list", "--json"
    ).document
    assert ([one["topic"] for one in document["open"]], document["unknown"]) == (["billing"], [])


def test_r22_it_may_be_listed_and_not_ended_and_then_it_is(lab: Damaged, config: Path) -> None:
    (logs,) = lab.cluster.broker(3).layout.log_dirs
    reading = acls_of("after transactions list", "billing")
    listed = allowed(lab.cluster, config, reading, *LIST, "--json")
    assert listed.code == 0, listed.err
    (told,) = listed.document["open"]
    assert "DESCRIBE on its transactional id" in told["hanging"]["unknown"]

    ending = (*FINISH, "--from", f"log:{logs}", "--write")
    asked = allowed(lab.cluster, config, reading, *ending)
    phrase = asked.said[-1].removeprefix("consent: ")
    refused = allowed(lab.cluster, config, reading, *ending, "--consent", phrase)
    assert refused.code == 1
    assert "not allowed: needs ALTER on CLUSTER" in refused.err
    assert consume(lab.cluster, BILLING, isolation="read_committed") == {}

    ended = allowed(
        lab.cluster,
        config,
        acls_of("after transactions finish", "billing"),
        *ending,
        "--consent",
        phrase,
    )
    assert ended.code == 0, ended.err
    assert len(consume(lab.cluster, BILLING, isolation="read_committed")) == 10


def test_r22_without_read_on_the_topic_it_is_not_known_what_is_open(
    lab: Damaged, config: Path
) -> None:
    acls = [Acl(OPERATOR, Operation.DESCRIBE, Resource.TOPIC, "billing")]
    listed = allowed(lab.cluster, config, acls, *LIST)
    assert "? transactions on b2 are not known: grant READ on topic billing" in listed.err


def test_r22_a_topic_that_may_not_be_described_is_never_safe_to_lose(
    lab: Damaged, config: Path
) -> None:
    """Brokers leave it out of what they list, as if it had been deleted."""
    (logs,) = lab.cluster.broker(3).layout.log_dirs
    checking = ("can-start", "--from", f"log:{logs}/billing-0", "--json")
    checked = allowed(lab.cluster, config, acls_of("can-start", "billing"), *checking)
    (told,) = checked.document["partitions"]
    assert (told["fate"], told["lost"]) == ("lost", SINCE)
    hidden = allowed(lab.cluster, config, [], *checking)
    (told,) = hidden.document["partitions"]
    assert hidden.code == 1
    assert (told["fate"], "grant DESCRIBE on topic billing" in told["why"]) == ("unknown", True)
