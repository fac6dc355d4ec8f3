"""What a model writes, taken apart: answers, reasoning and calls of tools. Pure, and free of Django."""
