from phonechain.app.cli import main

raise SystemExit(main())
