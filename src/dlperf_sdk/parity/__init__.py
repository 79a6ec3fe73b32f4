"""Verification that a framework trains the same model: its first steps are compared with float64 trajectories.

`reference` loads the trajectories that ship with a model, `record` the records of the parity program. `compare`
compares both by `distance`, and names `known_mistakes` that explain a difference. `evidence` plans a parity run and
evaluates it, or takes the evidence of an earlier run from the `cache`.
"""
