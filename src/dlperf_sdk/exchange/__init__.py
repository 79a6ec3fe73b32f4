"""Results for other programs, and other programs' measurements as results."""
