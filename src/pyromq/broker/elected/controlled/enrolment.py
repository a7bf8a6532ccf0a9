"""Which replica of a controller's set a store is: its number is claimed once at the controller, and kept on disk.

The files are Java's, so that a store can be handed over: `brokerIdentity` has `cluster#name#number`; while the number
is being claimed `brokerIdentity-temp` has the check code behind it, by which a start that was killed in between finds
its own claim.
"""

from __future__ import annotations

from .... import logs
from ....ambient import Clock
from ....errors import CallRefused, ConfigError
from ....model.codes import ResponseCode
from ....model.wire_text import whole_number
from ....store.files.disk import Disk, read_if_there, remove_durably, replace_durably
from ..identity import IDENTITY_FILE, SetName, keep_number, known_number
from .controllers import Controllers

log = logs.get("pyromq.broker")

CLAIM_FILE = IDENTITY_FILE + "-temp"
MOST_CLAIMS = 20  # that others are quicker


async def enrol(controllers: Controllers, disk: Disk, name: SetName, address: str, clock: Clock) -> int:
    """Return the number of this replica, known to the controller with this address.

    Raises ConfigError where that cannot be, CallFailed if no controller answers."""
    number = known_number(disk, name)
    if number is None:
        number = await _claimed(controllers, disk, name, address, clock)
        keep_number(disk, name, number)
        remove_durably(disk, CLAIM_FILE)
    try:
        await controllers.register(number, address)
    except CallRefused as refusal:
        if refusal.code != ResponseCode.CONTROLLER_BROKER_NEED_TO_BE_REGISTERED:
            raise
        raise ConfigError(
            f"{disk.root} is replica {number} of {name} ({IDENTITY_FILE}), and the controller knows none: correct "
            f"controllerAddr, or move {IDENTITY_FILE} away to get a new number ({refusal.remark})"
        ) from None
    return number


async def _claimed(controllers: Controllers, disk: Disk, name: SetName, address: str, clock: Clock) -> int:
    for _ in range(MOST_CLAIMS):
        claim = _begun_claim(disk, name)
        if claim is None:
            claim = await controllers.next_id(), f"{address};{clock.now_ms()}"
            number, code = claim
            replace_durably(disk, CLAIM_FILE, f"{name.cluster}#{name.broker}#{number}#{code}".encode())
        number, code = claim
        try:
            await controllers.apply_id(number, code)
        except CallRefused as refusal:
            if refusal.code != ResponseCode.CONTROLLER_BROKER_ID_INVALID:
                raise
            log.info("another broker was quicker", number=number, why=refusal.remark)
            remove_durably(disk, CLAIM_FILE)
        else:
            return number
    raise ConfigError(f"the controller has refused {MOST_CLAIMS} numbers for a new replica of {name}: start it again")


def _begun_claim(disk: Disk, name: SetName) -> tuple[int, str] | None:
    """Return the number and the check code of a claim that was begun; None: there is none of this set."""
    content = read_if_there(disk, CLAIM_FILE)
    if content is None:
        return None
    words = content.decode("utf-8", "replace").strip().split("#")
    number = whole_number(words[2], 1) if len(words) == 4 else None
    if number is None or (words[0], words[1]) != (name.cluster, name.broker):
        return None
    return number, words[3]
