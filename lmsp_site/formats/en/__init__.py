"""English, as this service writes it."""
