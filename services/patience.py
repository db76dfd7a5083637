"""How long Breakglass waits for an answer, by kind of question; all values are seconds.

A module says which kind of question it asks, and only this module says how long that takes.
Pauses between two tries, and times of a screen or of the lab, stay where they are used.
"""

from __future__ import annotations

from typing import Final

JOB: Final = 60.0
"""A question of a job that runs for minutes or hours: long enough for a broker to restart."""
COMMAND: Final = 30.0
"""A question of a command, whose operator waits for the answer and nothing else."""
REQUEST: Final = 10.0
"""One request of several, such as one page of the metadata."""
BRIEF: Final = 5.0
"""A question of an open screen, or one that is soon asked again: a late answer is worth little."""
LOOK: Final = 2.0
"""One look of many: if this broker hangs, another broker is asked, or the next look sees more."""
ALARM: Final = 1.0
"""One look of a watch whose purpose is to notice a change within a second or two."""

PEER: Final = 30.0
"""A client of a server, to send its next request; the body of a request has REQUEST."""
COMPLETION: Final = 1.0
"""The topics of a cluster, for a shell that completes a word."""

CONNECT: Final = 10.0
"""A new connection; Kafka's default of socket.connection.setup.timeout.ms."""
GREETING: Final = 2.0
"""The bootstrap broker, before another broker is tried for a reading of the whole cluster."""
KNOWN_BROKER: Final = 1.0
"""The bootstrap broker that answered before, until the other bootstrap servers are tried."""
HEAD_START: Final = 0.25
"""One bootstrap server, before the next server is tried beside it."""
ENDING: Final = 1.0
"""All attempts on bootstrap servers, to end after their deadline, each with its own error."""
ROLL_CALL: Final = 1.0
"""All brokers together, to say that they are there."""

SNAPSHOT: Final = 10.0
"""The metadata of the partitions that a command is about."""
WHOLE_CLUSTER: Final = 120.0
"""All pages of the metadata of a very large cluster over a slow link."""
CONTROLLER: Final = 2.5
"""What only a controller answers: without a quorum no answer ever comes."""
GROUPS: Final = 5.0
"""The committed offsets of one coordinator's groups, which are shown beside the evidence."""
GRACE: Final = 2.0
"""What follows the last answer, or has not been asked when the time of a command is up."""
GROUP_BOUNDS: Final = 1.0
"""The bounds that groups' offsets give: a reading waits no longer for them."""

LOGS: Final = 30.0
"""A reading of replicas: an unfenced broker that is silent for longer counts as silent (R15)."""
ONE_BROKER: Final = 10.0
"""All replicas of one broker that answered a greeting."""
SETTLE: Final = 1.0
"""The silence of some brokers after which the others' evidence is handed out."""
RECHECK: Final = 1.0
"""The controller, to say whether a silent broker is fenced; also how often it is asked."""
LEADER: Final = 3.0
"""One leader, to say that it leads or where its logs end; then its answer is unknown."""

CHUNK: Final = 15.0
"""One chunk of a replica's records, with the time that the broker throttles it."""
LAST_LOOK: Final = 1.0
"""A broker whose log was read, to say whether the log changed, though the deadline has passed."""
FETCH: Final = 30.0
"""One range of records for a job, from a leader that may be busy or throttle the job."""
WRITE: Final = 35.0
"""One produce request: the leader waits up to 30 s for the in-sync replicas."""
LEADERLESS: Final = 10.0
"""A partition without a leader, or a coordinator that does not know it, before other ways."""
CONSUMER: Final = 15.0
"""Errors that librdkafka retries by itself, before a reader reports them."""
TRANSACTION: Final = 120.0
"""A transaction of a restore, and each of its steps."""

STORE: Final = 30.0
"""One small request to an object store, with what its client repeats."""
STORE_BULK: Final = 600.0
"""A whole listing of an object store, or one part of an upload, over a slow link."""

ELECTION: Final = 30.0
"""One request that elects leaders; after it the outcome is unknown."""
START: Final = 30.0
"""All partitions of a checkpoint, to start."""
DRAIN: Final = 60.0
"""Groups, to process the input records that are before the cut of a checkpoint."""
KSQL_SERVER: Final = 3.0
"""One ksqlDB server, for all that it answers."""
