"""The check of `pyromq doctor` on certificates: what name servers and brokers show to whoever speaks TLS with them."""

from __future__ import annotations

from collections.abc import AsyncIterator

from ...transport.certificates.reading import Certificate, now_of, of_server
from .checked import BROKEN, GOOD, WARNING, CheckedCluster, CheckResult

_WITHIN_S = 5.0
_RENEW = "Renew it, and put the new file in the old one's place: no restart is needed. One of pyromq tls by:"
_CLOCK = "Is the clock of this machine right? Else make it again:"


async def certificates(checked: CheckedCluster) -> AsyncIterator[CheckResult]:
    """Look at the certificate of each server that answers, where this command speaks TLS."""
    session = checked.calls.session
    if session.config.tls is None:
        return
    named = [(f"name server {address}", address) for address in session.config.name_servers]
    named += [(f"{place.name} at {place.address}", place.address) for place in checked.brokers]
    for what, address in named:
        try:
            found = await of_server(address, session.clock, _WITHIN_S)
        except (OSError, TimeoutError):
            continue  # the checks before this one say so
        if found is not None:
            yield _judged(what, found, checked)


def _judged(what: str, found: Certificate, checked: CheckedCluster) -> CheckResult:
    now = now_of(checked.calls.session.clock)
    state, until = found.state(now), f"{found.until:%Y-%m-%d}"
    if state == "expired":
        return CheckResult("certificate", BROKEN, f"{what}: it ended on {until}", _RENEW, "pyromq tls renew")
    if state == "not yet valid":
        text = f"{what}: it is valid from {found.begin:%Y-%m-%d} on"
        return CheckResult("certificate", BROKEN, text, _CLOCK, "pyromq tls renew --all")
    text = f"{what}: it ends on {until}, in {found.days_left(now)} days"
    if state == "ends soon":
        return CheckResult("certificate", WARNING, text, _RENEW, "pyromq tls renew")
    return CheckResult("certificate", GOOD, text)
