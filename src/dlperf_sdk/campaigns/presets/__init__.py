"""The presets of the core. Registered in the group `dlperf_sdk.presets`."""

from pathlib import Path

SMOKE = Path(__file__).with_name("smoke.yaml")
"""Both models, small, in every installed framework."""
