"""Records that tests of several studies share."""

import pytest

from relearn.report.quantities import Evidence

from ..report.conftest import evidence, evidence_of, gradinit, make_study, root
from .l2_attention.fake_records import Study

__all__ = ["evidence", "gradinit", "make_study", "root"]


@pytest.fixture(scope="session")
def l2_attention(tmp_path_factory: pytest.TempPathFactory) -> Evidence:
    """The records that `l2_attention.fake_records.Study` writes."""
    return evidence_of(Study().write(tmp_path_factory.mktemp("l2_attention")))
