"""The launcher for a job that somebody else started: its processes become the agents of the nodes."""
