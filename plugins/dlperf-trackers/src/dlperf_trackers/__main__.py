"""`python -m dlperf_trackers`: the program `dlperf-track`."""

import sys

from dlperf_trackers.command import main

sys.exit(main())
