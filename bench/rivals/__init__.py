"""Servers that people would use instead: their environment, and each as a process. None of them stores anything."""
