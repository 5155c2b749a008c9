import numpy as np
import pytest
from hypothesis import settings

settings.register_profile("vstream", deadline=None, derandomize=True, print_blob=True)
settings.load_profile("vstream")


@pytest.fixture
def rng():
    return np.random.default_rng(20251)
