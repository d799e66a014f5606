"""The service over HTTP: server, middleware, routes, the description of the interface."""
