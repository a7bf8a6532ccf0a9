"""What to do about a connection of ours that TLS or a full server may have ended: words for `ConnectionLost.hint`.

Called where a connection ends. Guesses from how it ended, and says "may" where it is a guess; never raises.
"""

from __future__ import annotations

TURN_ON = "pyromq --tls, PYROMQ_TLS=true in the environment, or connect(tls=pyromq.ClientTls()) in a program"
_CA = "--tls-ca FILE, PYROMQ_TLS_CA, ClientTls(ca=...)"
_VERIFY = "--tls-verify ca, PYROMQ_TLS_VERIFY=ca, ClientTls(verify=pyromq.Verify.CA)"
_OWN = "--tls-cert and --tls-key, PYROMQ_TLS_CERT and PYROMQ_TLS_KEY, ClientTls(certificate=..., key=...)"

_FULL = (
    "The server ended it without an answer: see its log. It may have no room for more connections: raise its "
    "maxConnections or its ulimit -n, or end some. Or it may"
)
SILENT = f"{_FULL} take TLS alone. Turn TLS on: {TURN_ON}"
NO_TLS = "The server may not speak TLS (tls.server.mode=disabled, or no certificate): its log says so. Turn TLS off"
NO_ANSWER_TO_TLS = f"{_FULL} not speak TLS (tls.server.mode=disabled, or no certificate). Turn TLS off"
UNTRUSTED = f"TLS: its certificate is signed by nobody whom we trust. Name the file of who signed it: {_CA}"
OTHER_NAME = (
    f"TLS: its certificate is made out to another name. Use that name, or check only who signed it: {_VERIFY}. "
    "Brokers are reached at the address that they advertise (brokerIP1)"
)
EXPIRED = "TLS: its certificate is past its time, or the clock of this machine is wrong. Renew it: no restart is needed"
NOT_OURS = f"TLS: the server may want a certificate of ours, signed by whom it trusts: see its log. Name one: {_OWN}"
FAULTY = "TLS: certificates or versions of both sides do not fit; the server's log has its part of it"


def hint(reason: str, *, is_tls: bool, is_secured: bool, by_peer: bool) -> str:
    """Return a guess why a connection ended on which nothing came; empty if the way it ended says nothing."""
    if not is_tls:
        return SILENT if by_peer else ""
    if "CERTIFICATE_VERIFY_FAILED" in reason:
        return _of_their_certificate(reason)
    if "WRONG_VERSION_NUMBER" in reason:  # plain bytes came
        return NO_TLS
    if "ALERT" in reason and ("CERTIFICATE" in reason or "UNKNOWN_CA" in reason):
        return NOT_OURS
    if by_peer:  # TLS 1.3 tells of a certificate that was not taken when we are done already
        return NOT_OURS if is_secured else NO_ANSWER_TO_TLS
    return FAULTY if "TLS" in reason else ""


def _of_their_certificate(reason: str) -> str:
    if "mismatch" in reason:
        return OTHER_NAME
    return EXPIRED if "expired" in reason or "not yet valid" in reason else UNTRUSTED
