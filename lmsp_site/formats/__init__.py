"""How dates are written on pages, by language; Django looks here."""
