"""Checks of statements proved by kim2020, qi2023 and ye2023 about attention and related layers, by exact Jacobians; one per file.

Each file has ``COLUMNS`` and ``cases(...)``, which returns one row per case. Every row has ``holds``: whether the exact Jacobian
confirms the statement, in the version corrected by `docs/errata.md` if there is one. If the paper prints something else,
``printed_holds`` says whether the printed version is confirmed. The layers are arguments, so any layer with the same formulas can be
examined.
"""
