"""Engines: what runs a language model, apart from the service that asks for it.

Nothing in this package imports Django. A worker needs `client` alone; the engine host is `host`, and each loaded
model lives in a process of its own, `process`.
"""
