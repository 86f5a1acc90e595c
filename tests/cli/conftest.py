"""Fixtures that are shared with other folders."""

from fixtures_cli import over_confident as over_confident
from fixtures_cli import run as run
