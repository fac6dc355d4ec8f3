"""What the admin shows of the work that is done: the state of the service as it changes, and its past."""
