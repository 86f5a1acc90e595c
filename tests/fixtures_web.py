"""A server in the process of the tests."""

import pytest

from calibrant.web.app import create_app
from web_client import SMALL, Client, Here


@pytest.fixture(scope="session")
def client() -> Client:
    """A client of a server with small limits."""
    return Client(create_app(Here(), limits=SMALL))
