"""The parts of ``multipart/form-data``, gathered in memory: other parsers write large ones to a disk."""

from __future__ import annotations

from dataclasses import dataclass, field

from python_multipart.exceptions import FormParserError
from python_multipart.multipart import MultipartParser, parse_options_header

from calibrant.web.limits import Limits, Refusal

_LONGEST_FIELD = 1 << 16


@dataclass
class Part:
    """One part: a file where it has a file name, else a field."""

    name: str = ""
    filename: str | None = None
    content: bytearray = field(default_factory=bytearray)


class Parts:
    """Gathers parts while bytes come."""

    def __init__(self, content_type: str, limits: Limits) -> None:
        boundary = parse_options_header(content_type)[1].get(b"boundary")
        if not boundary:
            raise Refusal(400, "the request cannot be read: its content type names no boundary.")
        self.found: list[Part] = []
        self._limits, self._whole = limits, False
        self._headers: dict[bytes, bytes] = {}
        self._header, self._value = bytearray(), bytearray()
        try:
            self._parser = MultipartParser(
                boundary,
                {
                    "on_part_begin": self._begin,
                    "on_header_field": self._on_header,
                    "on_header_value": self._on_value,
                    "on_header_end": self._on_header_end,
                    "on_headers_finished": self._on_headers,
                    "on_part_data": self._on_data,
                    "on_end": self._end,
                },
            )
        except FormParserError as error:
            raise _malformed() from error

    def write(self, content: bytes) -> None:
        """Take the next bytes.

        Raises:
            Refusal: If they are not well-formed, or there are too many parts.
        """
        try:
            self._parser.write(content)
        except FormParserError as error:
            raise _malformed() from error

    def close(self) -> None:
        """No more bytes come.

        Raises:
            Refusal: If the end is missing.
        """
        if not self._whole:
            raise Refusal(400, "the request was cut off: the end of the form is missing.")

    def _begin(self) -> None:
        self.found.append(Part())
        self._headers = {}

    def _on_header(self, content: bytes, start: int, end: int) -> None:
        self._header += content[start:end]

    def _on_value(self, content: bytes, start: int, end: int) -> None:
        self._value += content[start:end]

    def _on_header_end(self) -> None:
        self._headers[bytes(self._header).lower()] = bytes(self._value)
        self._header, self._value = bytearray(), bytearray()

    def _on_headers(self) -> None:
        _, options = parse_options_header(self._headers.get(b"content-disposition"))
        if b"name" not in options:
            raise Refusal(400, "the request cannot be read: every part must have a name.")
        part = self.found[-1]
        part.name = options[b"name"].decode("utf-8", "replace")
        if b"filename" in options:
            part.filename = options[b"filename"].decode("utf-8", "replace")
        files = sum(each.filename is not None for each in self.found)
        if files > self._limits.files or len(self.found) - files > self._limits.fields:
            raise Refusal(
                413,
                f"a request must have at most {self._limits.files} files and {self._limits.fields} fields.",
            )

    def _on_data(self, content: bytes, start: int, end: int) -> None:
        part = self.found[-1]
        part.content += content[start:end]
        if part.filename is None and len(part.content) > _LONGEST_FIELD:
            raise Refusal(413, f"a field must have at most {_LONGEST_FIELD} bytes; a file has a file name.")

    def _end(self) -> None:
        self._whole = True


def _malformed() -> Refusal:
    return Refusal(400, "the request is not a well-formed multipart/form-data.")
