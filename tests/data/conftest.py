"""Where real data lies, for tests that want it."""

import os
from pathlib import Path

import pytest


@pytest.fixture(scope="session")
def real_data() -> Path:
    folder = os.environ.get("PENCIL_DATA")
    if not folder:
        pytest.skip("PENCIL_DATA is not set: no real data to read")
    return Path(folder)
