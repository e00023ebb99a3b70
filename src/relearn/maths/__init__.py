"""Mathematical operators shared by several packages, one idea per file; any leading shape, on the tensor's device."""
