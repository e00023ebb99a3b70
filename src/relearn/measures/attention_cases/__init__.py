"""What kim2020, qi2023 and ye2023 prove of attention and what is around it, case by case with exact Jacobians; a file a statement.

Each file has ``COLUMNS`` and ``cases(...)``, which gives one row a case, always with ``holds``: whether the statement, corrected where
`docs/errata.md` corrects it, is what the Jacobian shows. Where the paper prints something else, ``printed_holds`` says how that fares.
The layers are handed in, so any with the same formulas can be examined.
"""
