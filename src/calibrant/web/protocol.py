"""HTTP with a limit on what stands beside the content of a request."""

from __future__ import annotations

from uvicorn.protocols.http.httptools_impl import HttpToolsProtocol

MOST_BESIDE = (
    1 << 18
)  # bytes of request line, headers, and lengths of pieces; uvicorn itself sets no limit here


class Protocol(HttpToolsProtocol):
    """uvicorn's quick parser, which ends a connection whose headers have no end."""

    _beside = 0

    def data_received(self, data: bytes) -> None:
        """Take the next bytes of a connection."""
        if self._beside > MOST_BESIDE:
            self.send_400_response("The headers of a request must have an end.")
            return
        self._beside += len(data)
        super().data_received(data)

    def on_body(self, body: bytes) -> None:
        """Content, which is limited elsewhere."""
        self._beside -= len(body)
        super().on_body(body)

    def on_message_begin(self) -> None:
        """Another request."""
        self._beside = 0
        super().on_message_begin()
