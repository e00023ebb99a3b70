"""Mathematical operators shared by several packages, one idea per file. Functions accept any leading shape and run on the tensor's device."""
