"""Checks that everything gives the same results on a GPU as on the CPU: ``python -m relearn.gpu_check``; see docs/gpu.md."""
