"""Operators that two rooms share, one idea a file: any leading shape, the device of the tensor."""
