"""What all tests share: Hypothesis profiles and the way to real data."""

import os
from pathlib import Path

import pytest
from hypothesis import settings

# The first call of a kernel may calibrate it, so no deadline; CI draws the same
# examples every time, a developer's machine draws new ones.
settings.register_profile("ci", derandomize=True, deadline=None)
settings.register_profile("local", deadline=None)
settings.load_profile("ci" if os.environ.get("CI") else "local")

# Before SciPy is imported: scikit-learn's checks of array-API input need it.
os.environ.setdefault("SCIPY_ARRAY_API", "1")

_REPOSITORY = Path(__file__).parents[1]


@pytest.fixture(scope="session")
def data_folder() -> Path:
    """Folder with the original data files; a test that asks for it skips without."""
    default = _REPOSITORY.parent / "shared" / "data"
    folder = Path(os.environ.get("HARDZERO_DATA", default))
    if not folder.is_dir():
        pytest.skip(f"no folder {folder}; HARDZERO_DATA names another")
    return folder
