"""No test is a test of time: on a busy machine Hypothesis's deadline would fail sound ones.

Where CI is set the examples are the same at every run, so that a change is judged by itself; elsewhere they are drawn anew.
"""

from __future__ import annotations

import os

from hypothesis import HealthCheck, settings

settings.register_profile(
    "untimed",
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow],
    derandomize=bool(os.environ.get("CI")),
)
settings.load_profile("untimed")
