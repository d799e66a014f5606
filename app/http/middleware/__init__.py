"""Plain ASGI middleware, outermost first: request ids, access log, API keys, rate limits, body size."""
