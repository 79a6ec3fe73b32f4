"""Find the largest batch size that fits, for `batch_size="max"`, by trying sizes in new processes."""

from dlperf_sdk.max_batch.resolve import begin_case, resolve_max_batch

__all__ = ["begin_case", "resolve_max_batch"]
