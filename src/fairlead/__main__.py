"""``python -m fairlead`` is the command line."""

from fairlead.cli import main

main()
