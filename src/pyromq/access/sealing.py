"""Secrets of users, sealed for the disk.

A signature can only be checked by who has the secret, so it cannot be kept as a hash. AES-SIV of `cryptography` seals
it: it needs no random number for each secret, so that none can be used twice, which is what breaks other ciphers when a
machine is copied. The user's name goes into the seal: a secret that is moved to another user does not open.
"""

from __future__ import annotations

import base64
from collections.abc import Callable
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

from ..errors import ConfigError
from ..files import replace_file

if TYPE_CHECKING:
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

_KEY_BITS = 512
_LEAST_PHRASE = 16
_MARK = "siv1:"  # how a text was sealed, in front of it
_PURPOSE = b"pyromq access secrets 1"


class Seal(Protocol):
    def close(self, owner: str, secret: str) -> str: ...

    def open(self, owner: str, sealed: str) -> str: ...


class SivSeal:
    """Seals texts with one key. ConfigError for a text that another key has sealed, or that was changed."""

    def __init__(self, key: Callable[[], bytes]) -> None:
        """`key` is asked for when the first secret is there: not every server has users."""
        self._key = key

    @cached_property
    def _cipher(self) -> AESSIV:
        from cryptography.hazmat.primitives.ciphers.aead import AESSIV  # takes its time to import

        return AESSIV(self._key())

    def close(self, owner: str, secret: str) -> str:
        return _MARK + base64.b64encode(self._cipher.encrypt(secret.encode(), _owned(owner))).decode()

    def open(self, owner: str, sealed: str) -> str:
        from cryptography.exceptions import InvalidTag

        try:
            if not sealed.startswith(_MARK):
                raise ValueError
            return self._cipher.decrypt(base64.b64decode(sealed.removeprefix(_MARK)), _owned(owner)).decode()
        except (ValueError, InvalidTag):
            raise ConfigError(
                f"the secret of user {owner!r} does not open: it was sealed with another key. Give back the key file "
                "(pyromq/access.key) or accessSecret that this server had, or remove pyromq/access.json and its .bak "
                "and make the users anew"
            ) from None


def _owned(owner: str) -> list[bytes]:
    return [_PURPOSE, owner.encode()]


def new_key() -> bytes:
    """Return a key, of the operating system's random numbers."""
    from cryptography.hazmat.primitives.ciphers.aead import AESSIV

    return AESSIV.generate_key(_KEY_BITS)


def key_of_phrase(phrase: str) -> bytes:
    """Return the key that a text of the environment or the configuration stands for. ConfigError for a short one."""
    from cryptography.hazmat.primitives import hashes
    from cryptography.hazmat.primitives.kdf.hkdf import HKDF

    if len(phrase) < _LEAST_PHRASE:
        raise ConfigError(
            f"accessSecret has fewer than {_LEAST_PHRASE} characters, which can be guessed: "
            "take a long random one, such as `openssl rand -base64 32` prints"
        )
    return HKDF(hashes.SHA512(), _KEY_BITS // 8, None, _PURPOSE).derive(phrase.encode())


def key_in(file: Path, phrase: str) -> bytes:
    """Return the key that a phrase stands for, or without one that of a file, which is made when it is missing."""
    if phrase:
        return key_of_phrase(phrase)
    if not file.exists():
        replace_file(file, new_key(), keep_backup=False)
    return file.read_bytes()
