"""Does everything compute on a GPU what it computes on the CPU? ``python -m relearn.gpu_check``; docs/gpu.md explains it."""
