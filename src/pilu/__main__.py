"""`python -m pilu` is the command line."""

from pilu.cli.app import main

if __name__ == "__main__":
    main()
