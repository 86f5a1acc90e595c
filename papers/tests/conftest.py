"""The rows of all studies' tests, which take seconds to compute."""

import pandas as pd
import pytest

from papers import studies


@pytest.fixture(scope="session")
def every_row() -> pd.DataFrame:
    return studies.every_row()
