"""The site's material, read once."""

import pytest

from relearn.cli.docs import ROOT, material
from relearn.report.site.material import Site


@pytest.fixture(scope="session")
def site() -> Site:
    """All studies with the published scale mini."""
    made = material(ROOT, ["mini"])
    assert isinstance(made, Site)
    return made
