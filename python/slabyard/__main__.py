"""python -m slabyard: the command."""

import sys

from slabyard.cluster import run_command


def main():
    run_command(sys.argv[1:])


if __name__ == "__main__":
    main()
