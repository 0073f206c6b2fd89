"""The parameter server's processes."""
