"""`python -m callboard` is the command line."""

from callboard.surfaces.cli.main import main

if __name__ == "__main__":
    main()
