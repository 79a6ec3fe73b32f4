"""Check that a framework trains the same model: its first steps, compared with float64 trajectories.

`reference` loads what a model's author laid down, `record` what the parity program left, `compare` holds the one
against the other by their `distance` and by known `mistakes`, `evidence` runs the program or finds in the cache what it
left before.
"""
