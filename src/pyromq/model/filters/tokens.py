"""Tokens of a filter expression, made when the parser asks for them.

Laziness is part of the language: Java's parser looks one token beyond a complete expression and no further, so that
`a = 1 ) #` is accepted while `a = 1 #` is not.
"""

from __future__ import annotations

import re
from typing import NamedTuple

from ...errors import PyroError

# Java's longest match: among the alternatives that fit, the one order here gives the longest. A line comment needs its
# line end, else `--` is two signs; a float may begin with zeros, an integer may not.
_LINE_COMMENT = r"|--[^\n\r]*+(?:\r\n|\n|\r)"
_PATTERN = r"""
      (?P<skip>[ \t\n\r\f]++{comment}|/\*(?s:.*?)\*/)
    | (?P<float>[0-9]+\.[0-9]*(?:[eE][+-]?[0-9]+)?|\.[0-9]+(?:[eE][+-]?[0-9]+)?|[0-9]+[eE][+-]?[0-9]+)
    | (?P<integer>0|[1-9][0-9]*[lL]?)
    | (?P<text>'(?:''|[^']++)*')
    | (?P<name>[A-Za-z_$][A-Za-z0-9_$]*+)
    | (?P<sign><>|>=|<=|[=<>(),+-])
    """
_TOKEN = re.compile(_PATTERN.format(comment=_LINE_COMMENT), re.VERBOSE)
# For the last line, where no comment can end: each `--` would be followed to the end of the text for nothing.
_TOKEN_OF_LAST_LINE = re.compile(_PATTERN.format(comment=""), re.VERBOSE)
WORDS = frozenset(
    ["NOT", "AND", "OR", "BETWEEN", "IN", "TRUE", "FALSE", "NULL", "IS", "CONTAINS", "STARTSWITH", "ENDSWITH"]
)
END = "end"


class FilterFault(PyroError):
    """An expression that is none. The text says where and why."""


class Token(NamedTuple):
    """`kind` is a sign, a reserved word in capitals, or one of float, integer, text, name, end."""

    kind: str
    text: str
    at: int

    def __str__(self) -> str:
        return "the end" if self.kind == END else repr(self.text)


class Tokens:
    """One text, read from left to right with one token of foresight."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._behind = 0
        self._last_line = max(text.rfind("\n"), text.rfind("\r")) + 1
        self.next = self._read()

    def take(self) -> Token:
        taken = self.next
        self.next = self._read()
        return taken

    def fault(self, reason: str, at: int | None = None) -> FilterFault:
        where = self.next.at if at is None else at
        line = self._text.count("\n", 0, where) + 1
        column = where - self._text.rfind("\n", 0, where)
        return FilterFault(f"SQL92 expression, line {line}, column {column}: {reason}")

    def _read(self) -> Token:
        while self._behind < len(self._text):
            at = self._behind
            found = (_TOKEN if at < self._last_line else _TOKEN_OF_LAST_LINE).match(self._text, at)
            if found is None:
                raise self.fault(_unreadable(self._text[at]), at)
            self._behind = found.end()
            kind = found.lastgroup or ""
            if kind != "skip":
                return _token(kind, found[0], at)
        return Token(END, "", len(self._text))


def _token(kind: str, text: str, at: int) -> Token:
    if kind == "sign":
        return Token(text, text, at)
    if kind == "name" and text.upper() in WORDS:
        return Token(text.upper(), text, at)
    return Token(kind, text, at)


def _unreadable(character: str) -> str:
    if character == "'":
        return "a text in single quotes begins here and does not end"
    if character == "/":
        return "'/' begins a comment only as /* ... */; there is no arithmetic"
    if character == '"':
        return "texts stand in single quotes, '...', not in double ones"
    return f"{character!r} cannot stand here"
