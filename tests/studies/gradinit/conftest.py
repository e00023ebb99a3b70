"""The records of this study and of `poisoning`, shared with the tests of the report."""

from ...report.conftest import evidence, gradinit, make_study, root

__all__ = ["evidence", "gradinit", "make_study", "root"]
