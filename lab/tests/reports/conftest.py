"""Fixtures that are shared with other folders."""

from fixtures_reports import comparison_of as comparison_of
from fixtures_reports import curve as curve
from fixtures_reports import evaluation_of as evaluation_of
from fixtures_reports import page_of as page_of
