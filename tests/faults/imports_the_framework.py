"""A controller half that imports the framework."""

import numpy
from dlperf_numpy.framework import NumPy


class Imports(NumPy):
    name = "imports"
    version = numpy.__version__
