"""Stores with made-up histories: any number of results, without records, quickly."""

import copy
import json
from datetime import UTC, datetime, timedelta

from result_samples import a_result, fact

from dlperf_sdk.results.convert import result_to_dict

TOPOLOGIES = ("1n1d", "1n2d", "1n4d", "1n8d", "2n8d", "4n8d")
HOSTILE = '</script><img src=x onerror=alert("label")>'
DAY = datetime(2025, 1, 1, tzinfo=UTC)


def is_invalid(number):
    """Return True if the result of this number has a failed verdict."""
    return number % 19 == 18


def fill(store, count, cases=6):
    """Write results of so many cases in turn; from its middle on the first is 10 % slower, with another version.

    One result in nineteen is invalid, one cannot be read, and labels, hardware and a name are hostile.
    """
    documents = [
        _document(TOPOLOGIES[case % len(TOPOLOGIES)], 32 + case // len(TOPOLOGIES)) for case in range(cases)
    ]
    for number in range(count):
        case, day = number % len(documents), number // len(documents)
        plain = copy.deepcopy(documents[case])
        is_late = 2 * number >= count
        name = f"{DAY + timedelta(days=day, minutes=case):%Y%m%dT%H%M%SZ}-run-{number:06}"
        plain |= {"id": name, "started_at": (DAY + timedelta(days=day, minutes=case)).isoformat()}
        rate = (1 + 0.002 * (day * 7 % 5)) * (0.9 if is_late and case == 0 else 1.0)
        metric = next(metric for metric in plain["metrics"] if metric["name"] == "throughput")
        for key in ("value", "low", "high"):
            metric[key] *= rate
        metric["repeats"] = [value * rate for value in metric["repeats"]]
        plain["spec"]["labels"] = {"commit": f"c{day // 2}", "note": HOSTILE}
        next(one for one in plain["facts"] if one["name"] == "framework_version")["observed"] = (
            "2.5" if is_late else "2.4"
        )
        if is_invalid(number):
            plain["verdicts"][0]["outcome"] = "fail"
        _write(store / name, json.dumps(plain))
    _write(store / "20250101T000000Z-unreadable", "{" + HOSTILE)
    _write(store / "a b'\"><img src=x onerror=alert(1)>", json.dumps(plain))
    return store


def _document(topology, batch_size):
    result = a_result(
        fields={"topology": topology, "batch_size": batch_size},
        hardware=({"cpu": {"model": f"EPYC {HOSTILE}", "usable": 2}},),
    )
    plain = result_to_dict(result)
    plain["facts"] += [
        {
            "name": version.name,
            "role": version.role,
            "requested": version.requested,
            "observed": version.observed,
        }
        for version in [fact("framework_version", "context", "2.4")]
    ]
    return plain


def _write(folder, text):
    folder.mkdir(parents=True)
    (folder / "result.json").write_text(text, encoding="utf-8")
