"""The exception tree. Every message ends with what the operator can do next.

::

    BreakglassError                         exit 1
    ├── UsageError                          exit 2   a command or file is wrong; nothing was done
    │   ├── MalformedInput                           an unreadable file, with line and column
    │   ├── UnsupportedSchema                        a file written by a newer version
    │   ├── WrongCluster                             a plan made for another cluster
    │   ├── NotInBundle                              only a live cluster could answer
    │   ├── MissingExtra                             a part of Breakglass that is not installed
    │   └── BadConnectionSettings                    client properties or a profile that cannot work
    ├── Refused                             exit 3   a guard said no; nothing was changed
    │   ├── ReadOnly                                 --write is missing
    │   ├── ConsentMissing                           the phrase was not given or does not match
    │   ├── EvidenceChanged                          what was agreed to is no longer so
    │   └── AlreadyRunning                           another operator or process is at work
    ├── ClusterError                        exit 1   the cluster answered with an error
    │   ├── NotAuthorized                            an ACL is missing, named
    │   ├── NoQuorum                                 R20: no controller leader, no election can work
    │   ├── UnsupportedByCluster                     an api or a version the brokers do not have
    │   ├── NotNow                                   an error that Kafka calls transient; passes
    │   ├── LogBeginsLater                           records were deleted before they were read
    │   ├── LogTruncated                             records that were read are gone from the log
    │   ├── TopicRecreated                           another topic has the name by now, or none has
    │   ├── CannotProduce                            a broker refuses records for good
    │   └── MalformedMessage                         bytes that are not the message they should be
    ├── Unreachable                         exit 1   a broker could not be spoken to; retriable
    │   ├── ConnectFailed
    │   │   ├── NoIdentityProvider                   the provider of tokens, not the broker
    │   │   └── SessionClosing                       not retriable
    │   ├── AuthenticationFailed                     not retriable
    │   └── TimedOut                                 a read that did not answer in time
    │       └── OutOfTime                            not retriable: the command's time is up
    ├── OutcomeUnknown                      exit 4   a mutation was sent and its answer never came
    ├── StorageError                        exit 1   a file or folder could not be written or read
    │   ├── DiskFull                                 no space left; passes
    │   ├── DamagedBackup                            a backup's file is not what it says, with byte
    │   └── ConflictingRecord                        an offset that is backed up with other content
    ├── PipelineError                       exit 1   Spark could not be started, or its job failed
    └── LabError                            exit 1   the lab's own brokers
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import ClassVar


class BreakglassError(Exception):
    """Base of everything Breakglass raises for an operator to read."""

    exit_code: ClassVar[int] = 1
    retriable: ClassVar[bool] = False
    passes: ClassVar[bool] = False
    """Whether a command that follows a cluster waits until it is over, instead of ending."""


class UsageError(BreakglassError):
    """The command line or a file is wrong; nothing was done."""

    exit_code = 2


class MalformedInput(UsageError):
    """A file that cannot be read as what it should be; names line and column."""


class UnsupportedSchema(UsageError):
    """A file with a schema version this release does not know."""


class WrongCluster(UsageError):
    """A plan or a bundle made for another cluster id."""


class NotInBundle(UsageError):
    """Something that a bundle does not have, and that nobody is asked for while it is open."""


class MissingExtra(UsageError):
    """A part of Breakglass that is not installed; names the extra that brings it."""


class BadConnectionSettings(UsageError):
    """Client properties, a profile or an environment variable that cannot work."""


class NoBrokerNamed(BadConnectionSettings):
    """Nothing names a broker."""


class Refused(BreakglassError):
    """A guard said no; nothing was changed."""

    exit_code = 3


class ReadOnly(Refused):
    """A mutating command without ``--write``."""


class ConsentMissing(Refused):
    """The consent phrase was not given, or does not match."""

    def __init__(self, message: str, phrase: str, phrases: Sequence[str] = ()) -> None:
        super().__init__(message)
        self.phrase = phrase
        """What has to be typed, word for word."""
        self.phrases = tuple(phrases) or (phrase,)
        """All that the run asks for, those that are missing last; they may be given together."""


class EvidenceChanged(Refused):
    """The evidence that was agreed to has changed."""


class AlreadyRunning(Refused):
    """Another operator or process is changing the same cluster."""


class ClusterError(BreakglassError):
    """The cluster answered with an error."""


class NotAuthorized(ClusterError):
    """An ACL is missing; the message names operation and resource."""

    def __init__(self, message: str, needs: str = "") -> None:
        super().__init__(message)
        self.needs = needs
        """The ACL: ``READ on topic orders``."""


class NoQuorum(ClusterError):
    """R20: the controller quorum has no leader, so no election can work."""


class QuorumUnheard(NoQuorum):
    """R20: whether a controller leads could not be asked; the next question may be answered."""

    retriable = True


class UnsupportedByCluster(ClusterError):
    """An api or version that the brokers do not offer."""


class NotNow(ClusterError):
    """An answer that Kafka calls transient: a leader is being elected, a log is being loaded."""

    passes = True


class LogBeginsLater(ClusterError):
    """The log of a partition begins after the offset that was to be read: retention was faster."""


class LogTruncated(ClusterError):
    """The leader's log ends before what was read of it, as after an unclean election."""


class TopicRecreated(ClusterError):
    """The topic that was read was deleted; another topic may have its name by now."""


class CannotProduce(ClusterError):
    """A broker refuses records, or the transaction that they belong to."""


class MalformedMessage(ClusterError):
    """Bytes from the network that are not the message they should be."""


class Unreachable(BreakglassError):
    """A broker could not be spoken to."""

    retriable = True
    passes = True

    def __init__(self, message: str, reason: str = "does not answer") -> None:
        super().__init__(message)
        self.reason = reason
        """The same in two or three words, for a table: ``connection refused``."""


class ConnectFailed(Unreachable):
    """No connection: refused, reset, no route, no such host, TLS."""


class NoIdentityProvider(ConnectFailed):
    """The provider of tokens does not answer, so no broker could be logged in to."""


class SessionClosing(ConnectFailed):
    """The session is being closed: nothing leaves it any more."""

    retriable = False
    passes = False


class AuthenticationFailed(Unreachable):
    """The broker rejected the credentials."""

    retriable = False
    passes = False


class TimedOut(Unreachable):
    """A read that was not answered in time."""


class OutOfTime(TimedOut):
    """The time of the whole command is up: nothing was sent."""

    retriable = False
    passes = False


class OutcomeUnknown(BreakglassError):
    """A mutation was sent and its answer never came: it may or may not have happened."""

    exit_code = 4


class StorageError(BreakglassError):
    """A file or folder could not be written or read."""


class DiskFull(StorageError):
    """No space is left on a file system, or no quota."""

    passes = True


class DamagedBackup(StorageError):
    """A file of a backup whose bytes cannot be what its name says."""

    def __init__(self, file: str, position: int, reason: str, *, torn: bool = False) -> None:
        super().__init__(
            f"{file}, byte {position}: {reason}; take the file from another copy, or write every "
            "record that can be proved to a new one with `breakglass backup repair --out DIR`."
        )
        self.file = file
        self.position = position
        """The first byte that makes no sense."""
        self.reason = reason
        self.torn = torn
        """The file ends within a record, as it does when its writer was killed."""


class ConflictingRecord(StorageError):
    """The backup has other content at an offset: of another log, or of a recreated topic."""


class PipelineError(BreakglassError):
    """Spark could not be started, or a job of it failed."""


class LabError(BreakglassError):
    """The lab's own brokers could not be started, stopped or damaged as asked."""
