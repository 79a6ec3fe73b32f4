"""Analyses of results and published figures: comparisons, effects, scaling, cost and predictions. Nothing is written.

::

    from dlperf_sdk.analysis import cases, compare, effect, efficiency, speedup

    measured = cases(results)
    effect(measured, factor="precision", levels=("amp-bf16", "fp32"))
"""

from dlperf_sdk.analysis.attribution import Attribution, attribute
from dlperf_sdk.analysis.case import Case, cases
from dlperf_sdk.analysis.comparison import Comparison, compare
from dlperf_sdk.analysis.cost import Cost, Price, cost
from dlperf_sdk.analysis.effects import Effect, Pair, effect
from dlperf_sdk.analysis.gate import gate, gate_interleaved
from dlperf_sdk.analysis.gate_outcome import Gate
from dlperf_sdk.analysis.prediction import Prediction, predict
from dlperf_sdk.analysis.ranking import Ranking, rankings
from dlperf_sdk.analysis.scaling import Scaled, efficiency, speedup

__all__ = [
    "Attribution",
    "Case",
    "Comparison",
    "Cost",
    "Effect",
    "Gate",
    "Pair",
    "Prediction",
    "Price",
    "Ranking",
    "Scaled",
    "attribute",
    "cases",
    "compare",
    "cost",
    "effect",
    "efficiency",
    "gate",
    "gate_interleaved",
    "predict",
    "rankings",
    "speedup",
]
