"""The web server: Daphne, with limits on how a request arrives.

``python -m lmsp_site.daphne_server`` takes Daphne's own arguments.

Daphne has a request whole, headers and body, before it calls the application: whatever bounds its size, its headers and
its time has to stand here. With ``backpressure.py`` this is what knows the inside of Daphne and Twisted.
"""

import os
import time
from collections.abc import Callable
from http import HTTPStatus
from typing import Any

os.environ.setdefault("DJANGO_SETTINGS_MODULE", "lmsp_site.settings")

from daphne.cli import CommandLineInterface
from daphne.http_protocol import HTTPFactory, WebRequest
from daphne.server import Server
from daphne.ws_protocol import WebSocketFactory, WebSocketProtocol
from django.conf import settings
from twisted.web import http

from lmsp_site import hosts, origins, response_headers
from lmsp_site.errors import (
    HeadersTooLarge,
    InvalidRequest,
    ProtocolError,
    RequestTimeout,
    ServerError,
)
from lmsp_site.limits import too_large
from lmsp_site.views import encode

LEAST_BYTES_PER_SECOND = 16 << 10
"""What a body has to bring, once the time that every request has is over."""

# How long what still comes after a refusal is read and dropped: a caller who is cut off while sending reads no answer.
_LINGER_SECONDS = 1.0
_JSON: response_headers.Headers = [(b"content-type", b"application/json")]


class _Channel(http.HTTPChannel):  # type: ignore[misc]
    """One connection: it counts what comes until a request is complete, and watches the time."""

    callLater: Callable[..., Any]  # noqa: N815

    def __init__(self) -> None:
        super().__init__()
        self.maxHeaders = settings.LMSP.max_headers
        self.totalHeadersSize = self.MAX_LENGTH = settings.LMSP.max_header_bytes
        self._timer: Any = None
        self._began = 0.0
        self._arrived = 0
        self._is_serving = False
        self._is_refused = False

    def refuse(self, error: ProtocolError) -> None:
        """Answer what has come of a request, read nothing more of it, and close the connection."""
        if self._is_refused:
            return
        self._is_refused = True
        self.setTimeout(None)
        self._stop_timer()
        body = encode(error.body())
        headers = response_headers.complete([*_JSON, (b"connection", b"close")], error.status)
        headers.append((b"content-length", str(len(body)).encode()))
        status = HTTPStatus(error.status)
        head = [b"HTTP/1.1 %d %s" % (status, status.phrase.encode()), *(b"%s: %s" % header for header in headers)]
        self.transport.write(b"\r\n".join(head) + b"\r\n\r\n" + body)
        self._timer = self.callLater(_LINGER_SECONDS, self._end)

    # What Twisted calls.

    def dataReceived(self, data: bytes) -> None:  # noqa: N802
        """Bytes have come: of a request, or of the next one while one is served."""
        if self._is_refused:
            return
        if self._timer is None and not self._is_serving:
            self._began, self._arrived = time.monotonic(), 0
            self._timer = self.callLater(settings.LMSP.slow_request_seconds, self._look)
        self._arrived += len(data)
        super().dataReceived(data)

    def lineReceived(self, line: bytes) -> None:  # noqa: N802
        """A line of the head is complete."""
        if not self._is_refused:
            super().lineReceived(line)

    def rawDataReceived(self, data: bytes) -> None:  # noqa: N802
        """A part of the body has come."""
        if not self._is_refused:
            super().rawDataReceived(data)

    def lineLengthExceeded(self, line: bytes) -> None:  # noqa: N802
        """A line of the head is longer than the whole head may be."""
        self.refuse(_headers_too_large())

    def allHeadersReceived(self) -> None:  # noqa: N802
        """The head is complete."""
        if self.length is not None and self.length > settings.LMSP.max_body_bytes:
            # Before a caller who asks first is told to go on.
            self.refuse(too_large())
        else:
            super().allHeadersReceived()

    def allContentReceived(self) -> None:  # noqa: N802
        """The request is complete."""
        if not self._is_refused:
            self._is_serving = True
            self._stop_timer()
            super().allContentReceived()

    def requestDone(self, request: http.Request) -> None:  # noqa: N802
        """The request was answered; the next one may have come meanwhile."""
        self._is_serving = False
        super().requestDone(request)

    def connectionLost(self, reason: Any) -> None:  # noqa: N802
        """The connection has gone."""
        self._stop_timer()
        super().connectionLost(reason)

    def _respondToBadRequestAndDisconnect(self) -> None:  # noqa: N802
        if self._receivedHeaderSize > self.totalHeadersSize or self._receivedHeaderCount > self.maxHeaders:
            self.refuse(_headers_too_large())
        else:
            self.refuse(InvalidRequest("The request cannot be read as HTTP.", code="invalid_http"))

    def _end(self) -> None:
        # In order, where the other side takes part; it need not.
        self._timer = self.callLater(_LINGER_SECONDS, self.transport.abortConnection)
        self.transport.loseConnection()

    def _look(self) -> None:
        self._timer = None
        allowed = settings.LMSP.slow_request_seconds + self._arrived / LEAST_BYTES_PER_SECOND
        left = self._began + allowed - time.monotonic()
        if left > 0:
            self._timer = self.callLater(left, self._look)
            return
        self.refuse(
            RequestTimeout(
                f"The request took longer than {settings.LMSP.slow_request_seconds:g} s to arrive, and came more "
                f"slowly than {LEAST_BYTES_PER_SECOND >> 10} KiB/s after that. Send it again."
            )
        )

    def _stop_timer(self) -> None:
        timer, self._timer = self._timer, None
        if timer is not None and timer.active():
            timer.cancel()


class _Request(WebRequest):  # type: ignore[misc]
    """One request, whose body is measured while it comes."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        # Nobody asks Twisted for a form's fields, and large ones would keep all streams waiting while it reads them.
        self._parsePOSTFormSubmission = False
        self._length = 0

    def __repr__(self) -> str:
        # As it may be logged: without the query, in which people put what they should not.
        return f"<{type(self).__name__} {self.method!r} {getattr(self, 'path', b'')!r}>"

    def handleContentChunk(self, data: bytes) -> None:  # noqa: N802
        """A part of the body has come."""
        self._length += len(data)
        if self._length > settings.LMSP.max_body_bytes:
            self.channel.refuse(too_large())
        else:
            super().handleContentChunk(data)

    def process(self) -> Any:
        """Hand the request, which is complete, to the application."""
        # Daphne would take from any caller what the service's own address is.
        self.requestHeaders.removeHeader(b"daphne-root-path")
        if (self.requestHeaders.getRawHeaders(b"upgrade") or [b""])[0].lower() == b"websocket":
            # Once it is a websocket, Daphne can refuse it by one status alone and without a word.
            raw = self.requestHeaders.getAllRawHeaders()
            headers = [(name.lower(), value) for name, values in raw for value in values]
            refusal = hosts.unknown(headers) or origins.refused_socket(headers) or _unreadable_protocols(headers)
            if refusal:
                self._answer(refusal)
                return None
        return super().process()

    def basic_error(self, status: int, status_text: bytes, body: str) -> None:
        """Answer what Daphne itself refuses, or an application that has failed, in the protocol's envelope."""
        if self._response_started:
            # Cut short, so that it is not taken for whole.
            self.loseConnection()
        elif status == HTTPStatus.BAD_REQUEST:
            self._answer(InvalidRequest(f"{body}.", code="invalid_http"))
        else:
            self._answer(ServerError("The service failed to answer this request; its log says why."))

    def _answer(self, error: ProtocolError) -> None:
        headers = response_headers.complete(_JSON, error.status)
        self.handle_reply({"type": "http.response.start", "status": error.status, "headers": headers})
        self.handle_reply({"type": "http.response.body", "body": encode(error.body())})


class _Factory(HTTPFactory):  # type: ignore[misc]
    protocol = _Channel

    def buildProtocol(self, addr: Any) -> _Channel:  # noqa: N802
        """Return what a new connection speaks."""
        channel: _Channel = http.HTTPFactory.buildProtocol(self, addr)
        channel.requestFactory = _Request
        return channel

    def log(self, request: http.Request) -> None:
        """Keep no log of each access; Twisted's would be made, and then dropped."""

    def acceptableProtocols(self) -> list[bytes]:  # noqa: N802
        """Return what an encrypted connection may speak: HTTP/2 would pass by all of this."""
        return [b"http/1.1"]


class _Socket(WebSocketProtocol):  # type: ignore[misc]
    def sendData(self, data: bytes, sync: bool = False, chopsize: int | None = None) -> None:  # noqa: N802
        """Write a frame. The library's makes a log line of each, whether or not it is logged: a third of the price."""
        if sync or chopsize or self.send_queue or self.logOctets:
            super().sendData(data, sync, chopsize)
        else:
            self.transport.write(data)


class _Server(Server):  # type: ignore[misc]
    @property
    def http_factory(self) -> _Factory:
        """What makes connections; Daphne sets its own."""
        return self._factory

    @http_factory.setter
    def http_factory(self, _daphnes: HTTPFactory) -> None:
        self._factory = _Factory(self)

    @property
    def ws_factory(self) -> WebSocketFactory:
        """What makes websockets."""
        return self._socket_factory

    @ws_factory.setter
    def ws_factory(self, daphnes: WebSocketFactory) -> None:
        daphnes.protocol = _Socket
        self._socket_factory = daphnes


class _CommandLine(CommandLineInterface):  # type: ignore[misc]
    server_class = _Server


def _unreadable_protocols(headers: response_headers.Headers) -> InvalidRequest | None:
    """Refuse subprotocols that Daphne would fail at, with a traceback in the log."""
    if all(value.isascii() for name, value in headers if name == b"sec-websocket-protocol"):
        return None
    return InvalidRequest("Invalid header value: Sec-WebSocket-Protocol is not ASCII.", code="invalid_http")


def _headers_too_large() -> HeadersTooLarge:
    most, size = settings.LMSP.max_headers, settings.LMSP.max_header_bytes
    return HeadersTooLarge(f"A request has at most {most} headers, and {size >> 10} KiB of them with its first line.")


if __name__ == "__main__":
    _CommandLine.entrypoint()
