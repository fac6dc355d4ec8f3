"""Why a model cannot be put into the catalogue."""


class CannotRegister(Exception):
    """The files or the id cannot be registered; the message says why and is meant for a person."""
