"""The socket that a server listens on."""

from __future__ import annotations

import socket

from calibrant._math.errors import InputError


def bound(host: str, port: int) -> socket.socket:
    """A socket that is bound to an address, so that what is wrong with it is said before anything else.

    Raises:
        InputError: If there is no such address here, or the port is taken.
    """
    try:
        family, kind, _, _, address = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0]
        listening = socket.socket(family, kind)
        listening.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        listening.bind(address)
    except OSError as error:
        raise InputError(
            f"--host and --port must be a free address of this computer; got {host} and {port} "
            f"({error.strerror}); --port 0 takes any free port."
        ) from error
    return listening
