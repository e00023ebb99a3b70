"""Mathematical operators shared by several packages, one per file; they accept any leading shape and run on the tensor's device."""
