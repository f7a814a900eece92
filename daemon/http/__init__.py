"""HTTP: connections, bodies, routes, streams and the OpenAPI document."""
