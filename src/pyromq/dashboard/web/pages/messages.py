"""Messages: found, looked into, followed, sent."""

from __future__ import annotations

from ...views.messages import listed, opened, whole_body
from ...views.messages.wanted import MessagesQuery
from ..tables import Area, DownloadRoute, NavEntry, ViewRoute

AREA = Area(
    name="messages",
    views=(
        ViewRoute(
            "messages",
            "/messages",
            listed.messages,
            listed.MessagesPage,
            "Messages by time, key, id or place",
            MessagesQuery,
            "messages.html",
            for_visitor=True,
        ),
        ViewRoute(
            "message",
            "/messages/{topic}/{id}",
            opened.message,
            opened.MessagePage,
            "One message and its life",
            opened.MessageQuery,
            "message.html",
            below="messages",
            for_visitor=True,
        ),
    ),
    downloads=(
        DownloadRoute(
            name="message-body",
            path="/messages/{topic}/{id}/body",
            content=whole_body.whole_body,
            summary="The body of a message, as it is",
            for_visitor=True,
        ),
    ),
    nav=(NavEntry(50, "messages", "Messages", "/messages", "m"),),
)
