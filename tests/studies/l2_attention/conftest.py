"""Records of the whole study, with numbers that the papers' statements ask for."""

import pytest

from relearn.report.quantities import Evidence

from ...report.conftest import evidence_of
from .fake_records import Study


@pytest.fixture(scope="session")
def l2_attention(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """The records that `fake_records.Study` writes."""
    return evidence_of(Study().write(tmp_path_factory.mktemp("l2_attention")))
