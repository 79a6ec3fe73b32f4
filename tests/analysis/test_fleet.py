"""The health of a fleet: nodes by name, groups of equal devices, outcomes and exit codes."""

from types import SimpleNamespace

import attrs
import pytest
from result_samples import a_result

from dlperf_sdk.analysis.fleet import examine_fleet
from dlperf_sdk.errors import AnalysisError
from dlperf_sdk.interfaces.measurer import Metric
from dlperf_sdk.reports import html, markdown
from dlperf_sdk.reports.fleet import fleet_page
from dlperf_sdk.results.records import Failure
from dlperf_sdk.results.result import Verdict


def node(number, throughput=None, digests="aa", model="EPYC", **changes):
    """A result of a node; its repeats are the letters of `digests`."""
    value = 100.0 + number % 3 / 10 if throughput is None else throughput
    name, fields = f"n{number}", changes.pop("fields", {})
    repeats = tuple(
        SimpleNamespace(
            records=(
                SimpleNamespace(
                    replicas=(
                        SimpleNamespace(
                            digest=digest, canonical_losses=(2.0,), warmup_losses=(1.5,), losses=(1.0,)
                        ),
                    )
                ),
            )
        )
        for digest in digests
    )
    return a_result(
        **{
            "id": f"20250131T101502Z-torch-resnet50-1n2d-{number:06x}",
            "fields": {"labels": {"node": name}, "device": "cpu", **fields},
            "metrics": (Metric("throughput", "img/s", value, None, None, (value,) * 2, "samples"),),
            "repeats": repeats,
            "hardware": ({"host": "host", "cpu": {"model": model, "usable": 2}},),
            **changes,
        }
    )


def outcomes(fleet):
    return {one.name: one.outcome for one in fleet.nodes}


SOUND = [node(number) for number in range(1, 7)]
FAILED = {
    "status": "lost-node",
    "failure": Failure("lost-node", "Gone."),
    "repeats": (),
    "metrics": (),
    "verdicts": (),
}


def test_sound_nodes():
    fleet = examine_fleet(SOUND)
    assert (fleet.exit_code, set(outcomes(fleet).values())) == (0, {"ok"})


def test_slow_and_corrupt_nodes_are_flagged():
    fleet = examine_fleet([*SOUND, node(7, throughput=95.0), node(8, digests="bb")])
    assert fleet.exit_code == 1
    assert [one.name for one in fleet.flagged] == ["n7", "n8"]
    assert outcomes(fleet)["n7"] == "slow"
    assert outcomes(fleet)["n8"] == "differs"


def test_a_node_that_fails_a_validity_check_is_flagged_and_not_compared():
    failed = Verdict("parity", "integrity", "fail", "The loss of step 1 deviates.")
    fleet = examine_fleet([*SOUND, node(7, throughput=50.0, verdicts=(failed,))])
    (flagged,) = fleet.flagged
    assert (flagged.outcome, flagged.speed, fleet.exit_code) == ("invalid", None, 1)
    assert "It failed parity" in flagged.details[0]


def test_failed_nodes_are_rows():
    fleet = examine_fleet([*SOUND, node(7, **FAILED)], {"n8": "killed"})
    assert (fleet.exit_code, [one.name for one in fleet.failed]) == (5, ["n7", "n8"])
    assert examine_fleet([node(1, **FAILED)], {"n2": "killed"}).exit_code == 4


def test_too_few_nodes_are_inconclusive():
    assert examine_fleet(SOUND[:2]).exit_code == 6
    other = node(7, model="Xeon", throughput=50.0, digests="bb")
    fleet = examine_fleet([*SOUND, other])
    assert (fleet.exit_code, outcomes(fleet)["n7"]) == (6, "inconclusive")


def test_the_newest_run_of_a_node_counts():
    old = attrs.evolve(node(3, throughput=50.0), started_at="2025-01-30T10:15:02+00:00")
    assert examine_fleet([old, *SOUND]).exit_code == 0


def test_a_fleet_has_one_case_of_one_node_each():
    with pytest.raises(AnalysisError, match="different cases"):
        examine_fleet([*SOUND, node(7, fields={"batch_size": 64, "labels": {"node": "n7"}})])
    with pytest.raises(AnalysisError, match="has 2 nodes"):
        examine_fleet([node(1, fields={"topology": "2n1d", "labels": {"node": "n1"}})])
    with pytest.raises(AnalysisError, match="no node"):
        examine_fleet([])
    with pytest.raises(AnalysisError, match="minimum effect of 0"):
        examine_fleet(SOUND, minimum_effect=0.0)


def test_without_determinism_the_report_says_that_nothing_was_compared():
    fleet = examine_fleet([node(number, digests="ab") for number in range(1, 7)])
    assert fleet.exit_code == 0
    assert "Parameters were not compared between nodes" in markdown.text_of(fleet_page(fleet))


def test_reports_have_the_findings():
    fleet = examine_fleet([*SOUND, node(7, throughput=95.0), *(node(number) for number in range(8, 12))])
    text = markdown.text_of(fleet_page(fleet))
    assert "slower than the others" in text
    assert "10 more nodes without a finding" in text
    document = html.report_on_fleet(fleet)
    assert "n11" in document
    assert "slower than the others" in document
    assert fleet.to_dict()["flagged"] == ["n7"]
