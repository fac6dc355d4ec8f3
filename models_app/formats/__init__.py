"""What files of each format say about themselves; parsed in the child of ``inspecting`` alone."""
