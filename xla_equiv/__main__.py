"""`python -m xla_equiv`: the same as the `xla-equiv` command."""

from xla_equiv.faces.cli import main

if __name__ == "__main__":
    main()
