"""People and programs to model: the service, jobs, the command line."""
