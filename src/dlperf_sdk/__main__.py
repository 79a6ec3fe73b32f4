"""The program `dlperf`, and `python -m dlperf_sdk`, where the script is not on the PATH."""

import gc
import signal
import sys


def main() -> int:
    """Run the command line, and return its exit code; 130 if Ctrl-C is pressed while the program is still loading.

    When this returns, SIGINT, SIGTERM and SIGHUP are ignored, so that they cannot change the exit code.
    """
    try:
        gc.disable()  # nothing that an import makes is garbage
        from dlperf_sdk import cli

        gc.enable()
        return cli.main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130
    finally:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_IGN)
        gc.freeze()  # else the interpreter searches all objects for garbage before it ends


if __name__ == "__main__":
    sys.exit(main())
