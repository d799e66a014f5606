"""`python -m phonechain`: the command line."""

from phonechain.app.cli import main

raise SystemExit(main())
