"""Checks of theorems of kim2020, qi2023 and ye2023 on attention and related layers by exact Jacobians; one per file.

Each file has ``COLUMNS`` and ``cases(...)``, which returns one row per case. Every row has ``holds``: whether the exact Jacobian
confirms the statement, in the version corrected by `docs/errata.md` if there is one. If the printed statement differs,
``printed_holds`` reports whether it is confirmed. The layers are arguments, so any layer with the same formulas can be
examined.
"""
