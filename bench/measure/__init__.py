"""What several measurements share. Not run by itself."""
