"""How the service's costs grow with the work: with the tasks it stores, the length of a log, the streams it feeds."""
