"""A controller half that imports the framework when it is asked what it refuses."""

from dlperf_numpy.framework import NumPy


class RefusalImportsFramework(NumPy):
    name = "refusal-imports-framework"

    def explain_refusal(self, spec, options):
        import numpy

        return None if numpy.__version__ else "without NumPy nothing runs"
