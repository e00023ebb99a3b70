"""params.yaml: strict reading, one-line errors, shared types, the root schema."""

SCALES = ("mini", "small", "medium", "paper")
