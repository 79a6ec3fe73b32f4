"""Write docs/reference/operating-characteristics.md: how often verdicts and conclusions are wrong, by simulation.

    .venv/bin/python scripts/operating_characteristics.py

Each row has a seed of its own, so that `tests/scripts/test_operating_characteristics.py` can compute single rows again.
"""

from __future__ import annotations

import json
import math
import random
from collections import Counter
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import NamedTuple

import attrs
from dlperf_published.validation_page import (
    COLUMNS,
    HEADER,
    METHOD,
    ONE_SIDED,
    PLAIN,
    limitation,
    rows_by_depth,
)

from dlperf_sdk.analysis.case import Case
from dlperf_sdk.analysis.change_points import find_change_points
from dlperf_sdk.analysis.effects import Effect, Pair, adjust_effects
from dlperf_sdk.analysis.gate_decision import Pairing, decide_cases
from dlperf_sdk.analysis.node_speed import ALIKE, INCONCLUSIVE, SLOW, compare_speeds
from dlperf_sdk.analysis.rank_test import (
    RankSum,
    RankTest,
    SignedRank,
    hodges_lehmann_shift,
    mann_whitney_p,
)
from dlperf_sdk.reports.numbers import format_count
from dlperf_sdk.results import quality
from dlperf_sdk.results.steady_state import assess
from dlperf_sdk.spec.values import TopologySpec
from dlperf_sdk.worker import estimate
from dlperf_sdk.worker.agent.stopping import decide

ROOT = Path(__file__).resolve().parents[1]
DOCUMENT = ROOT / "docs" / "reference" / "operating-characteristics.md"
STEP_TIMES = ROOT / "tests" / "analysis" / "step_times.json"

Random = random.Random
Shape = Callable[[int], float]


class Row(NamedTuple):
    """A row of a table: its first cells, and the simulation of the others."""

    label: str
    """The texts of the first cells, with commas between them; also the seed of the simulation."""
    simulate: Callable[[Random], Sequence[float | str]]
    columns: int = 1
    """Number of the first cells."""

    @property
    def first_cells(self) -> str:
        """The first cells as Markdown, without the bars at both ends."""
        return " | ".join(self.label.split(", ", self.columns - 1))

    def line(self) -> str:
        """Run the simulation, and return the row as a line of Markdown; fractions become percentages."""
        cells = [
            cell if isinstance(cell, str) else f"{100 * cell:.1f} %"
            for cell in self.simulate(Random(self.label))
        ]
        return f"| {self.first_cells} | {' | '.join(cells)} |"


class Table(NamedTuple):
    """A section of the page."""

    title: str
    text: str
    header: str
    rows: list[Row]

    def markdown(self) -> str:
        """Run the simulations of all rows, and return the section as Markdown."""
        rule = "|" + "---|" * (self.header.count("|") - 1)
        return "\n".join(
            [f"## {self.title}", "", self.text, "", self.header, rule, *(row.line() for row in self.rows)]
        )


# -- steady-state


def _noisy_steps(source: Random, steps: int, noise: float, rho: float) -> list[float]:
    """Return autoregressive step times around 1."""
    value, times = source.gauss(0, 1), []
    for _ in range(steps):
        times.append(1 + noise * value)
        value = rho * value + math.sqrt(1 - rho**2) * source.gauss(0, 1)
    return times


def _steady_state_rates(
    source: Random,
    make_shape: Callable[[Random], Shape],
    repeats: int = 7,
    steps: int = 100,
    noise: float = 0.02,
    rho: float = 0.0,
    make_steps: Callable[[Random, int], list[float]] | None = None,
    cases: int = 400,
) -> list[float]:
    """Return the rates of `pass`, `inconclusive` and `fail`; all repeats of a case have its shape added."""
    outcomes: Counter[str] = Counter()
    for _ in range(cases):
        shape = make_shape(source)
        traces = []
        for _ in range(repeats):
            base = make_steps(source, steps) if make_steps else _noisy_steps(source, steps, noise, rho)
            traces.append([time + shape(step) for step, time in enumerate(base)])
        state = assess(traces)
        outcomes["fail" if state.is_unsteady else "pass" if state.is_steady else "inconclusive"] += 1
    return [outcomes[name] / cases for name in ("pass", "inconclusive", "fail")]


def every(period: int, height: float) -> Callable[[Random], Shape]:
    """Return a function that makes the shape of a case with slow steps at a fixed distance, from a random first one.

    The function takes a random generator. A shape is a function from the index of a step to an addend of its time.

    Args:
        period: Number of steps from one slow step to the next.
        height: Addend of a slow step's time, relative to the mean.
    """

    def make(source: Random) -> Shape:
        phase = source.randrange(period)
        return lambda step: height * (step % period == phase)

    return make


def _rare_slow_steps(source: Random, steps: int) -> list[float]:
    """Return steps of which 5 % take three times as long."""
    return [time * (3 if source.random() < 0.05 else 1) for time in _noisy_steps(source, steps, 0.02, 0.0)]


def _real_steps(source: Random, steps: int) -> list[float]:
    """Return blocks of 20 real steps, relative to their run's mean."""
    runs = [run["seconds"] for run in json.loads(STEP_TIMES.read_text())["runs"] if run["kind"] == "toy"]
    times: list[float] = []
    while len(times) < steps:
        run = source.choice(runs)
        first = source.randrange(len(run) - 20)
        times += [time * len(run) / math.fsum(run) for time in run[first : first + 20]]
    return times[:steps]


def fixed(shape: Shape) -> Callable[[Random], Shape]:
    """Return a function that takes a random generator, ignores it, and returns `shape`: all cases have that shape."""
    return lambda _: shape


FLAT = fixed(lambda step: 0.0)
SLOW_START = fixed(lambda step: 2.0 * (step < 5))


def steady(label: str, make_shape: Callable[[Random], Shape], **settings: object) -> Row:
    """Return a row whose simulation gives the rates of `pass`, `inconclusive` and `fail` of the check `steady-state`.

    Args:
        label: The first cell of the row, and the seed of its simulation.
        make_shape: Function that takes a random generator and returns a case's shape: step → addend of its time.
        settings: The numbers of `cases`, and of `repeats` and `steps` of each; the `noise` of the steps' times and its
            correlation `rho`; or `make_steps`, a function of the generator and the number of steps that returns times.
    """
    return Row(label, partial(_steady_state_rates, make_shape=make_shape, **settings))


STATIONARY = Table(
    "`steady-state`, stationary traces",
    "Each row has the rates of the verdicts of simulated cases: 200 in the rows with slow steps, with real steps and "
    "with 5 % noise, and 400 in all others. A case has 7 repeats of 100 steps with 2 % noise, unless the row says "
    "otherwise. The noise is the standard deviation of the step times, relative to their mean. The stationary mean is "
    "the mean step time of an endless window. A `fail` is a false alarm. `inconclusive` means that the window cannot "
    "show that its mean is within 1 % of the stationary mean; more steps, more repeats or less noise would help. "
    "AR(1) is autoregressive noise; the number is the correlation of neighboring steps.",
    "| trace | pass | inconclusive | fail |",
    [
        steady("white noise", FLAT),
        steady("AR(1), 0.3", FLAT, rho=0.3),
        steady("AR(1), 0.6", FLAT, rho=0.6),
        steady("AR(1), 0.9", FLAT, rho=0.9),
        steady("every 10th step twice as slow", every(10, 1.0), cases=200),
        steady("every 20th step three times as slow", every(20, 2.0), cases=200),
        steady("every 25th step twice as slow", every(25, 1.0), cases=200),
        steady("every 40th step twice as slow (fewer than four periods)", every(40, 1.0), cases=200),
        steady("5 % of steps, at random, three times as slow", FLAT, make_steps=_rare_slow_steps, cases=200),
        steady(
            "blocks of real steps (`tests/analysis/step_times.json`, toy)",
            FLAT,
            make_steps=_real_steps,
            cases=200,
        ),
        steady("white noise, 5 %", FLAT, noise=0.05, cases=200),
        steady("white noise, 1 repeat of 100 steps", FLAT, repeats=1),
        steady("white noise, 3 repeats of 20 steps", FLAT, repeats=3, steps=20),
        steady("white noise of 0.5 %, 3 repeats of 20 steps", FLAT, repeats=3, steps=20, noise=0.005),
    ],
)
UNFINISHED = Table(
    "`steady-state`, unfinished warm-up and drift",
    "Each row has 200 cases. A case has 7 repeats of 100 steps with 2 % noise, unless the row says otherwise. In each "
    "of these traces, the window's mean deviates by more than 1 % from the stationary mean, or from the level at the "
    "end of the window. So `pass` is wrong. `inconclusive` means that the window cannot decide. A drift grows evenly "
    "over the window; an exponential deviation begins with the given percentage and decays with the time constant τ.",
    "| trace | pass | inconclusive | fail |",
    [
        steady("first 5 steps three times as slow", SLOW_START, cases=200),
        steady("first 10 steps twice as slow", fixed(lambda step: 1.0 * (step < 10)), cases=200),
        steady("exponential, +50 %, τ = 5 steps", fixed(lambda step: 0.5 * math.exp(-step / 5)), cases=200),
        steady("drift of 5 % under 3 % noise", fixed(lambda step: 0.05 * step / 100), noise=0.03, cases=200),
        steady("5 % slower from step 50 on", fixed(lambda step: 0.05 * (step >= 50)), cases=200),
        steady("10 % slower from step 75 on", fixed(lambda step: 0.1 * (step >= 75)), cases=200),
        steady("first 10 steps 12 % slower (1.2 % off)", fixed(lambda step: 0.12 * (step < 10)), cases=200),
        steady("drift of 2.4 % (1.2 % off)", fixed(lambda step: 0.024 * step / 100), cases=200),
        steady(
            "exponential, +3.85 %, τ = 33 steps (1.2 % off)",
            fixed(lambda step: 0.0385 * math.exp(-step / 33)),
            cases=200,
        ),
        steady(
            "drift of 2.4 % (1.2 % off), AR(1), 0.6",
            fixed(lambda step: 0.024 * step / 100),
            rho=0.6,
            cases=200,
        ),
        steady(
            "blocks of real steps, first 5 three times as slow", SLOW_START, make_steps=_real_steps, cases=200
        ),
        steady("1 repeat, first 5 steps three times as slow", SLOW_START, repeats=1, cases=200),
        steady(
            "3 repeats of 20 steps, first 5 three times as slow", SLOW_START, repeats=3, steps=20, cases=200
        ),
    ],
)

# -- spread and adaptive


def _spread_rates(source: Random, noise: float, cases: int = 2000) -> list[float]:
    """Return the rates of failure with 3, 7 and 12 repeats."""
    rates = []
    for repeats in (3, 7, 12):
        failed = 0
        for _ in range(cases):
            values = [source.gauss(1, noise) for _ in range(repeats)]
            failed += estimate.standard_deviation(values) / estimate.median(values) > quality.SPREAD
        rates.append(failed / cases)
    return rates


SPREAD = Table(
    "`spread`",
    "Each cell has the rate of `fail` in 2000 cases with normally distributed repeats. The limit is a standard "
    "deviation of 2 %. It does not depend on the number of repeats, but more repeats separate cases above and below "
    "the limit better.",
    "| standard deviation between repeats | 3 repeats | 7 repeats | 12 repeats |",
    [
        Row(f"{100 * noise:g} %", partial(_spread_rates, noise=noise))
        for noise in (0.005, 0.01, 0.015, 0.02, 0.03, 0.04)
    ],
)


def _adaptive_rates(source: Random, noise: float, runs: int = 1500) -> list[float | str]:
    """Return the coverage, the share of runs that took the planned repeats, their coverage, and the mean repeats."""
    protocol = {"repeats": 6, "max_repeats": 30, "target": 0.01}
    covered, planned, covered_if_planned, taken = 0, 0, 0, 0
    for _ in range(runs):
        rates = [source.gauss(1, noise)]
        while not (decision := decide(rates, protocol)).stop:
            rates.append(source.gauss(1, noise))
        low, high = estimate.median_interval(rates) or (math.nan, math.nan)
        covers = low <= 1 <= high
        covered += covers
        planned += decision.met
        covered_if_planned += covers and decision.met
        taken += len(rates)
    if_planned = f"{100 * covered_if_planned / planned:.1f} %" if planned >= 100 else "–"
    return [covered / runs, planned / runs, if_planned, f"{taken / runs:.1f}"]


ADAPTIVE = Table(
    "`adaptive`",
    "Each row has 1500 runs with normally distributed repeats, the target ±1 % and 6 to 30 repeats. Coverage is how "
    "often the median's interval contains the true median (stated: at least 95 %). The target is the half width of "
    "this interval. The plan fits if 30 repeats are enough for the target; then `stopping-rule` passes. The coverage "
    "of these runs is given if there are at least 100.",
    "| standard deviation between repeats | coverage | plan fits | coverage of runs whose plan fits | mean number of "
    "repeats |",
    [
        Row(f"{100 * noise:g} %", partial(_adaptive_rates, noise=noise))
        for noise in (0.002, 0.005, 0.01, 0.015, 0.02, 0.03)
    ],
)

# -- comparisons and the gate


def _lognormal(source: Random, noise: float) -> float:
    """Return a throughput with multiplicative noise."""
    return math.exp(source.gauss(0, noise))


def _skewed(source: Random, noise: float) -> float:
    """Return a throughput that is sometimes much lower."""
    return math.exp(-noise * source.expovariate(1.0))


def _interval_rates(
    source: Random, draw: Callable[[Random, float], float], repeats: int, pairs: int = 1500
) -> list[float]:
    """Return coverage, false alarms, power, and contradictions between interval and p-value."""
    covered, alarms, actual, contradictions = 0, 0, 0, 0
    for _ in range(pairs):
        old, new, slower = ([draw(source, 0.02) for _ in range(repeats)] for _ in range(3))
        slower = [0.95 * value for value in slower]
        for sample, ratio in ((new, 1.0), (slower, 0.95)):
            shift, p = hodges_lehmann_shift(sample, old), mann_whitney_p(sample, old)
            if shift.low is not None and shift.high is not None:
                covered += shift.low <= ratio <= shift.high
                contradictions += (p <= 0.05) != (not shift.low <= 1 <= shift.high)
            if ratio == 1:
                alarms += p <= 0.05
            else:
                actual += p <= 0.05
    return [covered / 2 / pairs, alarms / pairs, actual / pairs, contradictions / 2 / pairs]


INTERVALS = Table(
    "Intervals of comparisons",
    "Each row has 1500 pairs of cases without a difference and 1500 pairs with a slowdown of 5 %, with 2 % noise. The "
    "interval of the ratio states a coverage of at least 95 %, and the test a level of 5 %. A contradiction is a "
    "significant pair whose interval contains 1, or an insignificant pair whose interval does not. With an exponential "
    "tail, a throughput is sometimes much lower, but never higher.",
    "| noise | repeats per side | coverage | false alarms | slowdown of 5 % found | contradictions |",
    [
        Row(f"{name}, {repeats}", partial(_interval_rates, draw=draw, repeats=repeats), 2)
        for name, draw in (("log-normal", _lognormal), ("exponential tail", _skewed))
        for repeats in (4, 7, 12)
    ],
)


def _simulated_case(source: Random, repeats: int, noise: float, speed: float) -> Case:
    """Return a case of log-normal throughputs; without repeats, one of this speed."""
    values = tuple(speed * _lognormal(source, noise) for _ in range(repeats))
    return Case(
        name="simulated",
        topology=TopologySpec.parse("1n1d"),
        batch_size=1,
        throughput=estimate.median(values or (speed,)),
        unit="samples/s",
        repeats=values,
        facts={},
        roles={},
    )


def paired(old: Case, new: Case, test: RankTest) -> Pairing:
    """Return the pairing of two simulated cases, before and after a change, with their test, for `decide_cases`."""
    return Pairing("simulated", old, new, test, "simulated")


def _gate_rates(
    source: Random, cases: int, repeats: int, noise: float, speed: float, gates: int = 600
) -> list[float]:
    """Return how often a gate fails, is inconclusive and passes; `speed` is the change of its first case."""
    outcomes: Counter[str] = Counter()
    for _ in range(gates):
        pairs = {}
        for number in range(cases):
            old, new = (
                _simulated_case(source, repeats, noise, change)
                for change in (1.0, speed if number == 0 else 1.0)
            )
            pairs[str(number)] = paired(old, new, RankSum(new.repeats, old.repeats))
        decisions = decide_cases(pairs, minimum_effect=0.02, level=0.05)
        actual = {decision.outcome for decision in decisions.values()}
        outcomes[next((name for name in ("regression", "inconclusive") if name in actual), "pass")] += 1
    return [outcomes[name] / gates for name in ("regression", "inconclusive", "pass")]


def _one_day(source: Random, sides: Sequence[str], offset: float, rho: float) -> dict[str, list[float]]:
    """Return the throughputs of repeats in this order of sides, on one day: AR(1) noise of 1 % and an offset."""
    state, shared = source.gauss(0, 0.01), source.gauss(0, offset)
    throughputs: dict[str, list[float]] = {side: [] for side in sides}
    for side in sides:
        throughputs[side].append(math.exp(shared + state))
        state = rho * state + math.sqrt(1 - rho**2) * source.gauss(0, 0.01)
    return throughputs


def _design_rates(
    source: Random, design: str, offset: float, rho: float, speed: float, gates: int = 1500
) -> list[float]:
    """Return how often a gate of one case fails, is inconclusive and passes, and the coverage of its interval."""
    outcomes: Counter[str] = Counter()
    covered = 0
    for _ in range(gates):
        if design == "interleaved":
            order = [side for _ in range(7) for side in source.sample(("old", "new"), 2)]
            day = _one_day(source, order, offset, rho)
            test: RankTest = SignedRank(
                [speed * new / old for new, old in zip(day["new"], day["old"], strict=True)]
            )
        elif design == "separate":
            old, new = (_one_day(source, ["side"] * 7, offset, rho)["side"] for _ in range(2))
            test = RankSum([speed * value for value in new], old)
        else:
            old, new = (
                [estimate.median(_one_day(source, ["side"] * 7, offset, rho)["side"]) for _ in range(5)]
                for _ in range(2)
            )
            test = RankSum([speed * value for value in new], old, "run")
        some = _simulated_case(source, 1, 0.01, 1.0)
        decision = decide_cases({"": paired(some, some, test)}, minimum_effect=0.02, level=0.05)[""]
        name = decision.outcome if decision.outcome in ("regression", "inconclusive") else "pass"
        outcomes[name] += 1
        shift = test.shift(0.1)
        covered += shift.low is not None and shift.high is not None and shift.low <= speed <= shift.high
    return [
        *(outcomes[name] / gates for name in ("regression", "inconclusive", "pass")),
        covered / gates,
    ]


GATE = Table(
    "The gate",
    "Each row has the outcomes of 600 gates with a minimum effect of 2 % and a level of 5 %. Only the speed of the "
    "first case changes; a negative change is a slowdown. Without a change, `regression` is a false alarm; with a "
    "slowdown of 2 % or more, `pass` is wrong. Both rates are stated as at most 5 %, and are accurate to ±1.7 "
    "percentage points here. `pass` stands for all outcomes with exit code 0. [Find "
    "regressions](../how-to/regression-gate.md#how-many-repeats) has the rates for noise of real step times.",
    "| cases | repeats per side | noise | change of the first case | regression | inconclusive | pass |",
    [
        Row(
            f"{cases}, {repeats}, {100 * noise:g} %, {100 * (speed - 1):+g} %".replace("+0 %", "none"),
            partial(_gate_rates, cases=cases, repeats=repeats, noise=noise, speed=speed),
            4,
        )
        for cases, repeats, noise in ((1, 3, 0.01), (1, 7, 0.01), (1, 7, 0.02), (1, 12, 0.02), (5, 7, 0.01))
        for speed in (1.0, 0.98, 0.95)
    ],
)

DESIGNS = Table(
    "Designs of the gate",
    "Each row has the outcomes of 1500 gates of one case with a minimum effect of 2 % and a level of 5 %. Repeats "
    "vary with a standard deviation of 1 % within a day; the offset is the standard deviation between days. The "
    "correlation is that of successive repeats (AR(1)). The stated coverage of the interval is 90 %. The designs "
    "are:\n\n"
    "- separate: 7 repeats per side, each side on its own day, as `dlperf gate BASELINE CANDIDATE` compares two runs\n"
    "- runs as units: 5 runs of 7 repeats per side, each run on its own day\n"
    "- interleaved: 7 pairs on one day\n\n"
    "If days differ or repeats are correlated, separate repeats exceed the stated rates of wrong outcomes. Runs as "
    "units keep the rates. Interleaved pairs keep them with far fewer repeats.",
    "| design | offset between days | correlation | change | regression | inconclusive | pass | coverage |",
    [
        Row(
            f"{design}, {100 * offset:g} %, {rho:g}, {100 * (speed - 1):+g} %".replace("+0 %", "none"),
            partial(_design_rates, design=design, offset=offset, rho=rho, speed=speed),
            4,
        )
        for offset, rho in ((0.0, 0.0), (0.01, 0.0), (0.02, 0.0), (0.0, 0.6), (0.0, 0.9), (0.02, 0.6))
        for design in ("separate", "runs as units", "interleaved")
        for speed in (1.0, 0.98, 0.95)
    ],
)

# -- effects in a report


def _pairs_of_framework(source: Random, framework: str, count: int) -> list[Pair]:
    """Return pairs whose ratios differ between frameworks by 5 %, and within one by 2 %."""
    shift = source.gauss(0, 0.05)
    pairs = []
    for _ in range(count):
        a, b = (
            attrs.evolve(_simulated_case(source, 0, 0.0, speed), facts={"framework": framework})
            for speed in (math.exp(shift + source.gauss(0, 0.02)), 1.0)
        )
        pairs.append(Pair(a, b, {}))
    return pairs


def _effect_rates(source: Random, frameworks: int, pairs: int, effects: int = 1500) -> list[float]:
    """Return coverage and false alarms with frameworks as units, and with pairs as units."""
    covered, alarms = [0, 0], [0, 0]
    for _ in range(effects):
        drawn = tuple(
            pair for name in range(frameworks) for pair in _pairs_of_framework(source, str(name), pairs)
        )
        for index, pairs_are_units in enumerate((False, True)):
            effect = Effect("simulated", (1, 0), (), (), drawn, 0, pairs_are_units)
            alarms[index] += effect.significant is True
            covered[index] += (
                effect.low is not None and effect.high is not None and effect.low <= 1 <= effect.high
            )
    return [rate / effects for index in (0, 1) for rate in (covered[index], alarms[index])]


def _family_rates(source: Random, number: int, reports: int = 600) -> list[float]:
    """Return how often all intervals of a report hold, and any raises a false alarm; adjusted, and each by itself."""
    covered, alarms = [0, 0], [0, 0]
    for _ in range(reports):
        single = [
            Effect(
                "simulated",
                (1, 0),
                (),
                (),
                (Pair(*(_simulated_case(source, 7, 0.02, 1.0) for _ in "ab"), {}),),
                0,
            )
            for _ in range(number)
        ]
        for index, effects in enumerate((adjust_effects(single), single)):
            held = [
                effect.low is not None and effect.high is not None and effect.low <= 1 <= effect.high
                for effect in effects
            ]
            covered[index] += all(held)
            alarms[index] += any(effect.significant for effect in effects)
    return [rate / reports for index in (0, 1) for rate in (covered[index], alarms[index])]


EFFECTS = Table(
    "Effects in a report",
    "Coverage is how often the interval of an effect contains the true value (stated: at least 95 %). A false alarm "
    "is an effect that is significant at 5 % although the true ratio is 1. The last two columns show the rates "
    "without the precaution that reports take.\n\n"
    "- The rows with frameworks have 1500 effects each. Ratios differ between frameworks with a standard deviation of "
    "5 %, and between pairs of one framework with 2 %. The precaution is to take frameworks as units instead of "
    "pairs.\n"
    "- The rows with several effects have 600 reports each. Each effect has one pair, 7 repeats per side and 2 % "
    "noise. The coverage is how often all intervals of a report contain their true values, and a false alarm is a "
    "report with at least one. The precaution is to adjust for the number of effects.",
    "| effects in a report | coverage | false alarms | coverage without precaution | false alarms without precaution |",
    [
        *(
            Row(
                f"{frameworks} frameworks, {format_count(pairs, 'pair')} each",
                partial(_effect_rates, frameworks=frameworks, pairs=pairs),
            )
            for frameworks, pairs in ((6, 1), (6, 4), (6, 16), (12, 4))
        ),
        *(Row(f"{number} effects of one pair", partial(_family_rates, number=number)) for number in (5, 20)),
    ],
)

# -- change points of a history


def _history_rates(
    source: Random, runs: int, change: float, after: int, rho: float = 0.0, outliers: float = 0.0
) -> list[float | str]:
    """Return how often 600 histories show any change, the true one within two runs, and one elsewhere."""
    histories, shown, placed, others = 600, 0, 0, 0
    for _ in range(histories):
        values = _noisy_steps(source, runs, 0.01, rho)
        values = [value * (0.8 if source.random() < outliers else 1) for value in values]
        values = [value * (1 + change) if run >= after else value for run, value in enumerate(values)]
        changes = find_change_points(values)
        near = [place for place in changes if change and abs(place - after) <= 2]
        shown += bool(changes)
        placed += bool(near)
        others += len(changes) > len(near[:1])
    if not change:
        return [shown / histories, "–", "–"]
    return [shown / histories, placed / histories, others / histories]


CHANGES = Table(
    "Changes in a history",
    "Rates over 600 histories whose runs vary by 1 % (standard deviation), with at most one true change. Without one, "
    "a change that is shown is a false alarm (stated: about 5 %); ranks make this rate the same for every distribution "
    "of independent noise. Correlated runs, such as AR(1), and drifts raise it: then look for a cause before you trust "
    "a change. A negative change is a slowdown, and `after 10` means after the tenth run. An outlier is 20 % slower.",
    "| runs | true change | any change shown | true change shown, within 2 runs | change shown elsewhere |",
    [
        *(
            Row(
                f"{runs}, none{note}",
                partial(_history_rates, runs=runs, change=0.0, after=runs, **settings),
                2,
            )
            for runs, note, settings in (
                *((runs, "", {}) for runs in (10, 20, 50, 100, 200)),
                (50, ", 5 % of runs are outliers", {"outliers": 0.05}),
                (50, ", AR(1), 0.3", {"rho": 0.3}),
                (50, ", AR(1), 0.6", {"rho": 0.6}),
            )
        ),
        *(
            Row(
                f"{runs}, {100 * change:+g} % after {after}{note}",
                partial(_history_rates, runs=runs, change=change, after=after, **settings),
                2,
            )
            for runs, after, note, settings in (
                (20, 10, "", {}),
                (50, 25, "", {}),
                (50, 45, "", {}),
                (100, 50, "", {}),
                (50, 25, ", 5 % of runs are outliers", {"outliers": 0.05}),
            )
            for change in (-0.01, -0.02, -0.05)
        ),
    ],
)

# -- slow nodes of a fleet


def normal(source: Random) -> float:
    """Return a random number of the standard normal distribution, drawn from `source`."""
    return source.gauss(0, 1)


def _heavy_tailed(source: Random) -> float:
    """Return a number of Student's t distribution with four degrees of freedom, scaled to a standard deviation of 1."""
    chi_squared = math.fsum(source.gauss(0, 1) ** 2 for _ in range(4))
    return source.gauss(0, 1) / math.sqrt(chi_squared / 4) / math.sqrt(2)


def _fleet_rates(
    source: Random, nodes: int, noise: float, draw: Callable[[Random], float], slow: int, slowdown: float
) -> list[float | str]:
    """Return how often a fleet calls sound nodes slow, finds all slow nodes, is inconclusive, and is all alike."""
    fleets, alarms, complete, open_fleets, alike = 600, 0, 0, 0, 0
    for _ in range(fleets):
        throughputs = {
            str(node): math.exp(noise * draw(source)) * (1 - slowdown if node < slow else 1)
            for node in range(nodes)
        }
        speeds = compare_speeds(throughputs, minimum_effect=0.03, level=0.05)
        found = {name for name, speed in speeds.items() if speed.outcome == SLOW}
        planted = {str(node) for node in range(slow)}
        alarms += bool(found - planted)
        complete += bool(planted) and planted <= found
        open_fleets += not found and any(speed.outcome == INCONCLUSIVE for speed in speeds.values())
        alike += all(speed.outcome == ALIKE for speed in speeds.values())
    power: float | str = complete / fleets if slow else "–"
    return [alarms / fleets, power, open_fleets / fleets, alike / fleets]


FLEET = Table(
    "Slow nodes of a fleet",
    "Each row has 600 fleets of nodes with equal devices, a minimum effect of 3 % and a level of 5 %. The noise is "
    "the standard deviation between nodes; heavy-tailed noise is that of Student's t with four degrees of freedom. A "
    "false alarm is a sound node that is called slow (stated for normal noise: at most 5 %). Heavy-tailed noise "
    "raises the rate, and so does a large noise in a large fleet. A fleet is inconclusive if it has no node that is "
    "called slow, and at least one inconclusive node. In an alike fleet, all nodes are alike; if a node is slower by "
    "3 % or more, this is wrong (stated: at most 5 %). The remaining fleets have a fast node, or not all of their "
    "slow nodes are found.",
    "| nodes | noise | slow nodes | false alarms | all slow nodes found | inconclusive | alike |",
    [
        Row(
            f"{nodes}, {100 * noise:g} %{note}, {f'{slow} by {100 * slowdown:g} %' if slow else 'none'}",
            partial(_fleet_rates, nodes=nodes, noise=noise, draw=draw, slow=slow, slowdown=slowdown),
            3,
        )
        for note, draw, planted in (
            ("", normal, ((0, 0.0), (1, 0.03), (1, 0.05), (2, 0.05))),
            (" heavy-tailed", _heavy_tailed, ((0, 0.0),)),
        )
        for nodes in (4, 8, 64)
        for noise in (0.005, 0.01, 0.02)
        for slow, slowdown in planted
    ],
)

# -- prediction, which is not simulated

PREDICTION = Table(
    "Prediction",
    "\n\n".join((METHOD, COLUMNS, limitation(), f"{ONE_SIDED} [Prediction](prediction.md) has every trial.")),
    f"| {' | '.join((*HEADER, *PLAIN))} |",
    [Row(depth, lambda _, cells=cells: cells) for depth, cells in rows_by_depth().items()],
)

TABLES = [
    STATIONARY,
    UNFINISHED,
    SPREAD,
    ADAPTIVE,
    INTERVALS,
    GATE,
    DESIGNS,
    EFFECTS,
    CHANGES,
    FLEET,
    PREDICTION,
]

INTRODUCTION = """# Operating characteristics

Look up here how often verdicts, intervals, effects, the gate, histories, fleets and predictions are wrong.
[Statistics](../explanation/statistics.md) explains the methods.

`scripts/operating_characteristics.py` writes this page. All rates are from simulations, except those of the last
table. In words such as "stated: at most 5 %", the stated rate is the one that the method promises. With 95 %
confidence, a simulated rate of 5 % is accurate to ±3.0 percentage points with 200 cases, ±2.1 with 400, ±1.7 with
600, ±1.1 with 1500, and ±1.0 with 2000."""


def page() -> str:
    """Run all simulations, which takes some minutes, and return the whole page as Markdown."""
    return "\n\n".join([INTRODUCTION, *(table.markdown() for table in TABLES)]) + "\n"


if __name__ == "__main__":
    DOCUMENT.write_text(page())
