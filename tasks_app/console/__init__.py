"""What the commands ``tasks`` and ``status`` show to a person in a terminal."""
