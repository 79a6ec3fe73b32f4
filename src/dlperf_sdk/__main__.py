"""The program `dlperf`, and `python -m dlperf_sdk`, where the script is not on the PATH."""

import sys


def main() -> int:
    """Run the command line, and return the exit code: 130 if Ctrl-C is pressed while the program is still loading."""
    try:
        from dlperf_sdk import cli

        return cli.main()
    except KeyboardInterrupt:
        print("Interrupted.", file=sys.stderr)
        return 130


if __name__ == "__main__":
    sys.exit(main())
