"""Hypothesis strategies for the values of a result, within the bounds that the schemas state."""

import math

from hypothesis import strategies as st

from dlperf_sdk.errors import FAILURES
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.results import records as r
from dlperf_sdk.results import result as res
from dlperf_sdk.spec.protocol import PROTOCOLS
from dlperf_sdk.spec.run_spec import RunSpec
from dlperf_sdk.spec.values import PHASES, DataSpec, TopologySpec

TEXT = st.text(max_size=12)
NAMES = st.from_regex(r"[a-z0-9][a-z0-9._-]{0,12}", fullmatch=True)
IDS = st.from_regex(r"[A-Za-z0-9][A-Za-z0-9._-]{0,20}", fullmatch=True)
INDEX = st.integers(0, 10**12)
NODE = st.integers(0, 999_998)
COUNT = st.integers(0, 2**63 - 1)
SECONDS = st.floats(0, 1e9)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
REAL = FINITE | st.sampled_from([math.nan, math.inf, -math.inf])
SCALAR = st.none() | st.booleans() | st.integers(-(2**63), 2**63) | FINITE | TEXT
FREE = st.recursive(
    SCALAR, lambda inner: st.lists(inner, max_size=2) | st.dictionaries(TEXT, inner, max_size=2), max_leaves=4
)
FREE_OBJECT = st.dictionaries(TEXT, FREE, max_size=2)


def many(strategy, most=2):
    return st.lists(strategy, max_size=most).map(tuple)


@st.composite
def specs(draw):
    """Run specs that are valid: the cross-field rules hold."""
    protocol = draw(st.sampled_from(sorted(PROTOCOLS)))
    accumulation = draw(st.integers(1, 16))
    repeats = draw(st.none() | st.integers(1, 100_000))
    adaptive = PROTOCOLS[protocol].target is not None
    least = repeats or PROTOCOLS[protocol].repeats
    return RunSpec(
        framework=draw(NAMES),
        model=draw(NAMES),
        topology=TopologySpec(draw(st.integers(1, 999_999)), draw(st.integers(1, 999_999)), draw(NAMES)),
        batch_size=accumulation * draw(st.integers(1, (2**31 - 1) // 16)),
        accumulation=accumulation,
        precision=draw(NAMES),
        compiler=draw(NAMES),
        strategy=draw(NAMES),
        layout=draw(NAMES),
        device=draw(NAMES),
        data=DataSpec(
            draw(NAMES), draw(st.none() | st.text(st.characters(exclude_characters="\0"), min_size=1))
        ),
        learning_rate_policy=draw(st.sampled_from(["constant", "warmup"])),
        seed=draw(st.integers(0, 2**32 - 1)),
        protocol=protocol,
        canonical_steps=draw(st.none() | st.integers(0, 100_000)),
        warmup=draw(st.none() | st.integers(0, 100_000)),
        steps=draw(st.none() | st.integers(1, 100_000)),
        repeats=repeats,
        max_repeats=draw(st.none() | st.integers(least, 100_000)) if adaptive else None,
        target=draw(st.none() | st.floats(0, 1, exclude_min=True)) if adaptive else None,
        python=draw(st.none() | st.text(st.characters(exclude_characters="\0"), min_size=1)),
        env=draw(
            st.dictionaries(
                st.from_regex(r"[A-Za-z_][A-Za-z0-9_]*", fullmatch=True),
                st.none() | st.text(st.characters(exclude_characters="\0")),
                max_size=2,
            )
        ),
        options=draw(
            st.dictionaries(st.from_regex(r"[A-Za-z_][A-Za-z0-9_.-]*", fullmatch=True), SCALAR, max_size=2)
        ),
        on_busy=draw(st.sampled_from(["wait", "note", "refuse"])),
        deadlines=draw(
            st.dictionaries(st.sampled_from(PHASES), st.floats(0, 1e9, exclude_min=True), max_size=3)
        ),
    )


WINDOWS = st.lists(SECONDS, min_size=2, max_size=2, unique=True).map(lambda edges: r.Window(*sorted(edges)))
CHANGES = st.dictionaries(NAMES, st.builds(r.TensorChanges, COUNT, many(TEXT), many(TEXT)), max_size=2)
BATCHES = st.builds(r.BatchAccount, COUNT, many(COUNT))
REPLICAS = st.builds(
    r.Replica, INDEX, TEXT, TEXT, many(REAL), many(REAL), many(REAL), CHANGES, BATCHES, many(REAL)
)
RECORDS = st.builds(
    r.Record,
    request=IDS,
    attempt=INDEX,
    rank=INDEX,
    node=NODE,
    clock=st.sampled_from(["event", "lagged", "blocking"]),
    window=WINDOWS,
    samples=COUNT,
    step_times=many(SECONDS, 4),
    data_waits=many(SECONDS, 4),
    replicas=many(REPLICAS),
    deviation=st.none() | REAL,
    updates=st.none() | COUNT,
    audit_step_times=many(SECONDS, 4),
    audit_seeded=st.booleans(),
    skipped_steps=COUNT,
    prefetched_batches=COUNT,
    peak_host_memory=COUNT,
    peak_device_memory=st.none() | COUNT,
    phases=st.dictionaries(NAMES, SECONDS, max_size=2),
    facts=FREE_OBJECT,
    observed=FREE_OBJECT,
)
OPTIONAL_TEXT = st.none() | TEXT
SERIES = st.builds(
    r.Series, NODE, TEXT, TEXT, TEXT, st.sampled_from(["gauge", "counter"]), many(SECONDS), many(FINITE)
)
EXITS = st.builds(
    r.Exit,
    NODE,
    st.sampled_from(["trainer", "service"]),
    st.none() | INDEX,
    COUNT,
    st.none() | st.integers(-(2**31), 2**32),
    OPTIONAL_TEXT,
    TEXT,
)
REPEATS = st.builds(r.Repeat, INDEX, many(RECORDS), many(SERIES), many(EXITS))
FAILURES_SEEN = st.builds(
    r.Failure,
    kind=st.sampled_from(sorted(FAILURES)),
    message=TEXT,
    phase=OPTIONAL_TEXT,
    node=st.none() | NODE,
    rank=st.none() | INDEX,
    type=OPTIONAL_TEXT,
    traceback=OPTIONAL_TEXT,
)
UTC = st.datetimes().map(lambda when: when.strftime("%Y").zfill(4) + when.strftime("-%m-%dT%H:%M:%SZ"))
ENVIRONMENTS = st.builds(
    res.Environment,
    st.sampled_from(["managed", "given", "running"]),
    TEXT,
    TEXT,
    many(TEXT),
    st.dictionaries(TEXT, TEXT, max_size=2),
    TEXT,
)

SOURCES = st.builds(res.Source, TEXT, st.from_regex(r"[0-9a-f]{64}", fullmatch=True), COUNT)
IMPORTS = st.builds(res.Imported, TEXT, TEXT, TEXT, TEXT, many(SOURCES))

PARITIES = st.builds(
    res.Parity,
    outcome=st.sampled_from([res.PASS, res.FAIL, res.INCONCLUSIVE, res.NOT_APPLICABLE]),
    detail=TEXT,
    case=TEXT,
    losses=many(many(REAL)),
    deviations=many(REAL),
    updates=st.none() | REAL,
    differing=many(TEXT),
    follows=many(TEXT),
    reference=OPTIONAL_TEXT,
    key=OPTIONAL_TEXT,
    made_at=st.none() | UTC,
)


@st.composite
def results(draw):
    failure = draw(st.none() | FAILURES_SEEN)
    return res.Result(
        id=draw(IDS),
        status="ok" if failure is None else failure.kind,
        failure=failure,
        spec=draw(specs()),
        facts=draw(
            many(st.builds(res.Fact, TEXT, st.sampled_from(["workload", "factor", "context"]), FREE, FREE))
        ),
        metrics=draw(
            many(st.builds(Metric, TEXT, TEXT, REAL, st.none() | REAL, st.none() | REAL, many(REAL), TEXT))
        ),
        verdicts=draw(
            many(
                st.builds(
                    res.Verdict,
                    TEXT,
                    st.sampled_from([res.INTEGRITY, res.QUALITY]),
                    st.sampled_from([res.PASS, res.FAIL, res.INCONCLUSIVE, res.NOT_APPLICABLE]),
                    TEXT,
                )
            )
        ),
        repeats=draw(many(REPEATS)),
        stopping=draw(
            st.none() | st.builds(res.Stopping, st.sampled_from(["fixed", "adaptive"]), st.booleans(), TEXT)
        ),
        environment=draw(st.none() | ENVIRONMENTS),
        hardware=draw(many(FREE_OBJECT)),
        workload=draw(
            st.none() | st.builds(res.Workload, COUNT, COUNT, st.integers(1, 2**63 - 1), FREE_OBJECT, TEXT)
        ),
        notes=draw(many(TEXT)),
        started_at=draw(UTC),
        finished_at=draw(UTC),
        sdk_version=draw(TEXT),
        parity=draw(st.none() | PARITIES),
        imported=draw(st.none() | IMPORTS),
    )
