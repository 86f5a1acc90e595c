"""What a file would become if it were unpacked, found without unpacking it."""

from __future__ import annotations

import io
import struct
import zipfile
import zlib

from calibrant._math.files import DAMAGE
from calibrant.web.limits import Limits, Refusal, size

_END = b"PK\x05\x06"  # of a ZIP archive: the record that says where its list of members is
_END_SIZE = 22
_COMMENT = 1 << 16
_ENTRY = 512  # bytes that the list of members has at most for each
_ZIP, _GZIP, _PARQUET = b"PK\x03\x04", b"\x1f\x8b", b"PAR1"
_PIECE = 1 << 20


def check_packed(content: bytes, name: str, limits: Limits) -> None:
    """Refuse an archive with too many members, and a file that would be too large when unpacked.

    The first bytes tell what the file is, not its name.

    Raises:
        Refusal: One sentence.
    """
    if content.startswith((_ZIP, _END)):
        _check_zip(content, name, limits)
    elif content.startswith(_GZIP):
        _check_gzip(content, name, limits)
    elif content.startswith(_PARQUET):
        _check_parquet(content, name, limits)


def _check_zip(content: bytes, name: str, limits: Limits) -> None:
    """Read the number of members before the list of them, which could fill the memory."""
    at = content.rfind(_END, max(0, len(content) - _END_SIZE - _COMMENT))
    if at < 0 or len(content) < at + _END_SIZE:
        raise Refusal(422, f"{name}: it is an archive that was cut off.")
    count, length = struct.unpack("<HI", content[at + 10 : at + 16])
    if count > limits.members or length > limits.members * _ENTRY:  # of ZIP64 both are the largest there are
        raise _too_many(name, limits)
    try:
        with zipfile.ZipFile(io.BytesIO(content)) as archive:
            members = archive.infolist()
    except DAMAGE as error:
        raise Refusal(422, f"{name}: it is a damaged archive ({error}).") from error
    if len(members) > limits.members:  # a ZIP64 record may say otherwise than the one above
        raise _too_many(name, limits)
    _check_size(sum(each.file_size for each in members), name, limits)


def _check_gzip(content: bytes, name: str, limits: Limits) -> None:
    """Unpack it piece by piece, and keep nothing."""
    total, rest = 0, content
    while rest:
        packed = zlib.decompressobj(wbits=31)
        while not packed.eof and rest:
            try:
                total += len(packed.decompress(rest, _PIECE))
            except zlib.error as error:
                raise Refusal(422, f"{name}: it is damaged ({error}).") from error
            _check_size(total, name, limits)
            rest = packed.unused_data if packed.eof else packed.unconsumed_tail
        rest = rest.lstrip(b"\0")  # which may fill the end


def _check_parquet(content: bytes, name: str, limits: Limits) -> None:
    """A few bytes can stand for a million equal numbers, so the numbers are counted."""
    try:
        from pyarrow import parquet
    except ImportError:
        return  # who reads it says what is missing
    try:
        found = parquet.read_metadata(io.BytesIO(content))
        numbers = found.num_rows * max(1, found.num_columns)
    except DAMAGE as error:
        said = str(error).partition("\n")[0].rstrip(".")
        raise Refusal(422, f"{name}: it is a damaged .parquet file ({said}).") from error
    _check_size(numbers * 8, name, limits)


def _too_many(name: str, limits: Limits) -> Refusal:
    return Refusal(413, f"{name}: an archive must have at most {limits.members} members; it has more.")


def _check_size(count: int, name: str, limits: Limits) -> None:
    if count > limits.unpacked:
        raise Refusal(413, f"{name}: it would take more than {size(limits.unpacked)} when unpacked.")
