"""`python -m dlperf_sdk`: the command line, where the script `dlperf` is not on the PATH."""

import sys

from dlperf_sdk.cli import main

if __name__ == "__main__":
    sys.exit(main())
