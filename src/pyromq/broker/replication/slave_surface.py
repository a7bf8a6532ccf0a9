"""What a slave answers to requests that only its master may serve: everything that would change its log or its tables.

A refusal names the master. One change is made here too: mqadmin's `deleteSubGroup -c` asks slaves as well to delete the
group's retry and dead letter topics (215), and ends at the first one that refuses. `metadata_pull.py` brings back what
the master keeps.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ...errors import RequestRefused
from ...model.codes import ResponseCode
from ...protocol.requests import RequestCode as Code
from ...transport.dispatch import Handler, Request

SENDS = (
    Code.SEND_MESSAGE,
    Code.SEND_MESSAGE_V2,
    Code.SEND_BATCH_MESSAGE,
    Code.SEND_REPLY_MESSAGE,
    Code.SEND_REPLY_MESSAGE_V2,
    Code.CONSUMER_SEND_MSG_BACK,
    Code.POP_MESSAGE,
    Code.ACK_MESSAGE,
    Code.BATCH_ACK_MESSAGE,
    Code.CHANGE_MESSAGE_INVISIBLETIME,
    Code.NOTIFICATION,
)
CHANGES = (
    Code.UPDATE_AND_CREATE_TOPIC,
    Code.UPDATE_AND_CREATE_TOPIC_LIST,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP,
    Code.UPDATE_AND_CREATE_SUBSCRIPTIONGROUP_LIST,
    Code.DELETE_SUBSCRIPTIONGROUP,
    Code.UPDATE_AND_GET_GROUP_FORBIDDEN,
    Code.SET_MESSAGE_REQUEST_MODE,
    Code.INVOKE_BROKER_TO_RESET_OFFSET,
    Code.CLONE_GROUP_OFFSET,
    Code.RESUME_CHECK_HALF_MESSAGE,
    Code.SWITCH_TIMER_ENGINE,
    Code.CLEAN_UNUSED_TOPIC,
    Code.DEAD_LETTERS,
)
ENDS = (Code.END_TRANSACTION, Code.RECALL_MESSAGE)  # Java's slaves answer these with 11


REFUSED = frozenset((*SENDS, *CHANGES, *ENDS))


def slave_surface(
    handlers: Mapping[int, Handler], master: Callable[[], str | None], *, is_elected: bool = False
) -> dict[int, Handler]:
    """Return the handlers of a slave. `master` says where it is; None: nobody knows.

    `is_elected`: of a follower in an elected set, whose topics and offsets come with the log: it deletes no topic by
    itself, and an offset that it took would be gone with the next record of its master's."""

    def refused(code: int) -> Handler:
        def refuse(_: Request) -> None:
            where = master() or "away"
            raise RequestRefused(f"this broker is a slave: its master, which serves this, is {where}", code)

        return refuse

    own = (Code.DELETE_TOPIC_IN_BROKER, Code.UPDATE_CONSUMER_OFFSET) if is_elected else ()
    return (
        {**handlers}
        | {row.code: refused(ResponseCode.SERVICE_NOT_AVAILABLE) for row in (*SENDS, *CHANGES, *own)}
        | {row.code: refused(ResponseCode.SLAVE_NOT_AVAILABLE) for row in ENDS}
    )
