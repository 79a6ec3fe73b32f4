"""A controller half that imports the framework."""

import numpy
from dlperf_numpy.framework import NumPy


class ControllerImportsFramework(NumPy):
    name = "controller-imports-framework"
    version = numpy.__version__
