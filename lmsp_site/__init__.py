"""The service itself: settings, identity, health, supervision."""

__version__ = "0.1.0"

PROTOCOL_VERSION = "1.0-draft"
