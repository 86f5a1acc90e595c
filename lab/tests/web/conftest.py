"""Fixtures that are shared with other folders."""

from fixtures_web import client as client
