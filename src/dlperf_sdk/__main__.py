"""The program `dlperf`, and `python -m dlperf_sdk`, where the script is not on the PATH."""

import sys


def main() -> int:
    """Run the command line; the value is the exit code. A Ctrl-C while it is still loading ends it in words."""
    try:
        from dlperf_sdk import cli

        return cli.main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
