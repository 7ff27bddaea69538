"""`python -m pilu` is the command line."""

from pilu.cli import main

if __name__ == "__main__":
    main()
