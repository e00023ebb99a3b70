"""Cost forecasts for jobs: work counted from the plans, times rates measured on this machine, corrected by past runs.

:mod:`relearn.forecast.single` forecasts single jobs; `relearn plan` prints the whole forecast. docs/forecast.md describes the method and
its errors.
"""
