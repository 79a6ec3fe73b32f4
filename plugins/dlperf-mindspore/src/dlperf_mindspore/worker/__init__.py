"""The worker half: runs inside the environment that has MindSpore, and imports nothing of the controller."""

import os

# With AVX-512, oneDNN's kernels in MindSpore are several times slower on CPUs; it reads this when it is loaded.
os.environ.setdefault("ONEDNN_MAX_CPU_ISA", "AVX2")
