"""The verdict on the window: the state moved, and the first steps come out again behind it."""

from __future__ import annotations

import attrs
import pytest
from record_samples import expected, record, repeat, repeats, replica

from dlperf_sdk.results.records import Repeat, TensorChanges
from dlperf_sdk.results.result import FAIL, INCONCLUSIVE, PASS
from dlperf_sdk.results.window_verification import window_verified


def verdict_of(*replicas, **changes):
    one = record(replicas=replicas, **{name: changes.pop(name) for name in [*changes] if name != "plan"})
    return window_verified((Repeat(1, (one,)),), changes.get("plan", expected()))


def changed(unchanged=(), tensors=2, moments=2, still=(), zeros=()):
    """What stayed the same of the parameters, and of the optimizer's moments."""
    return {
        "parameters": TensorChanges(tensors, unchanged, ()),
        "moments": TensorChanges(moments, still, zeros),
    }


def test_verdict_states_checked_and_unchecked_parts():
    actual = verdict_of(replica(0), updates=None)
    assert actual.outcome == PASS
    assert "2 parameters, 2 moments" in actual.detail
    assert "3 steps" in actual.detail
    assert "not reported: the optimizer's own count of updates" in actual.detail


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        (changed(("weight", "bias")), "2 of 2 parameters did not change"),
        (changed(("weight",), moments=0), "1 of 2 parameters did not change"),
        (changed(still=("weight.v",)), "1 of 2 moments did not change"),
        (
            {**changed(), "running-means": TensorChanges(1, ("bn",), ())},
            "1 of 1 running means did not change",
        ),
    ],
)
def test_unchanged_state_fails(changes, output):
    actual = verdict_of(replica(0), replica(1, changes=changes))
    assert actual.outcome == FAIL
    assert output in actual.detail
    assert "replica 1" in actual.detail


def test_update_below_rounding_passes_if_moments_change():
    assert verdict_of(replica(0, changes=changed(("gamma",)))).outcome == PASS


def test_updates_that_the_optimizer_did_not_count_fail():
    assert verdict_of(replica(0), updates=10).outcome == FAIL
    assert verdict_of(replica(0), updates=19, skipped_steps=1).outcome == PASS


def test_a_window_of_skipped_steps_is_inconclusive():
    actual = verdict_of(replica(0, changes=changed(("weight", "bias"))), updates=0, skipped_steps=20)
    assert actual.outcome == INCONCLUSIVE
    assert "skipped all steps" in actual.detail


@pytest.mark.parametrize("again", [(7.0, 6.5, 6.1), (7.0, 6.5), (7.0, 6.5, float("nan")), (6.9, 6.5, 6.0)])
def test_an_audit_that_goes_another_way_fails(again):
    assert verdict_of(replica(0, audit_losses=again)).outcome == FAIL


def test_dropout_moves_the_audit_and_other_losses_decide_nothing():
    plan = attrs.evolve(expected(), has_dropout=True)
    assert verdict_of(replica(0, audit_losses=(7.1, 6.6, 5.9)), plan=plan, audit_seeded=False).outcome == PASS
    actual = verdict_of(replica(0, audit_losses=(7.0, 6.5, 6.5)), plan=plan, audit_seeded=False)
    assert actual.outcome == INCONCLUSIVE
    assert "Dropout draws other masks" in actual.detail
    assert "no longer" not in actual.detail, "a verdict that does not decide accuses nobody"


def test_masks_that_repeat_let_the_audit_decide():
    plan = attrs.evolve(expected(), has_dropout=True)
    assert verdict_of(replica(0), plan=plan).outcome == PASS
    assert verdict_of(replica(0, audit_losses=(7.1, 6.6, 5.9)), plan=plan).outcome == FAIL


def test_update_lost_to_a_narrow_precision_passes():
    losses = {"canonical_losses": (7.0, 6.95, 6.9), "audit_losses": (7.0, 6.97, 6.9)}
    assert verdict_of(replica(0, **losses)).outcome == FAIL
    assert (
        verdict_of(replica(0, **losses), plan=attrs.evolve(expected(), precision="amp-bf16")).outcome
        == INCONCLUSIVE
    )


@pytest.mark.parametrize(
    ("changes", "output"),
    [
        ({"audit_losses": ()}, "There is no audit"),
        ({"canonical_losses": (7.0, 7.0), "audit_losses": (7.0, 7.0)}, "move the loss too little"),
        ({"changes": {}}, "No parameters were compared"),
        (
            {"changes": changed(("weight", "bias")), "losses": (5.9, 5.0, 5.000001, 5.0)},
            "had come to rest before the window",
        ),
        (
            {"changes": changed(zeros=("weight.v",))},
            "1 of 2 moments are zero at the start and the end of the window",
        ),
    ],
)
def test_missing_evidence_is_inconclusive_with_a_reason(changes, output):
    actual = verdict_of(replica(0, **changes))
    assert actual.outcome == INCONCLUSIVE
    assert output in actual.detail


def test_asynchronous_replicas_may_count_the_updates_of_others():
    plan = attrs.evolve(expected(), strategy="parameter_server_async")
    assert verdict_of(replica(0), plan=plan, updates=40).outcome == PASS
    assert verdict_of(replica(0), plan=plan, updates=19).outcome == FAIL


def test_asynchronous_replicas_need_a_falling_loss():
    plan = attrs.evolve(expected(), strategy="parameter_server_async")
    assert verdict_of(replica(0, audit_losses=(7.0, 6.9, 6.6)), plan=plan).outcome == PASS
    assert verdict_of(replica(0, audit_losses=(7.0, 7.0, 7.0)), plan=plan).outcome == FAIL
    assert verdict_of(replica(0, audit_losses=(7.0, 7.5, 7.6)), plan=plan).outcome == INCONCLUSIVE


def test_window_much_faster_than_its_audit_in_all_repeats_fails():
    slow = (0.21,) * 3
    assert window_verified(repeats(3, audit_step_times=slow), expected()).outcome == FAIL
    assert window_verified(repeats(2, audit_step_times=slow), expected()).outcome == PASS
    assert window_verified(repeats(3, audit_step_times=(0.19,) * 3), expected()).outcome == PASS
    one = (*repeats(2, audit_step_times=slow), repeat(2))
    assert window_verified(one, expected()).outcome == PASS


def test_steps_that_a_busy_machine_may_have_lengthened_leave_a_doubt():
    actual = repeats(3, step_times=(0.003,) * 20, audit_step_times=(0.02,) * 3)
    verdict = window_verified(actual, expected())
    assert verdict.outcome == INCONCLUSIVE
    assert "or the machine was busy" in verdict.detail


def test_short_steps_are_not_timed_against_the_audit():
    actual = repeats(3, step_times=(0.0001,) * 20, audit_step_times=(0.004,) * 3)
    assert window_verified(actual, expected()).outcome == PASS


def test_a_window_of_fast_and_slow_steps_is_judged_by_its_mean():
    halves = (0.1,) * 11 + (0.0,) * 9
    assert (
        window_verified(repeats(3, step_times=halves, audit_step_times=(0.12,) * 3), expected()).outcome
        == FAIL
    )


def losses_that_repeat(*steps, move=0.05):
    """Losses of 20 steps that fall by `move`, but for those that have the loss of the step before."""
    losses = [5.0]
    for step in range(1, 20):
        losses.append(losses[-1] - (0 if step in steps else move))
    return replica(0, losses=tuple(losses))


def test_steps_with_exactly_the_loss_of_the_step_before_fail():
    actual = verdict_of(losses_that_repeat(3, 4, 9))
    assert actual.outcome == FAIL
    assert (
        "3 of 20 steps of the window have exactly the loss of the step before, step 3 for one"
        in actual.detail
    )


@pytest.mark.parametrize(
    ("one", "changes"),
    [
        (losses_that_repeat(3), {}),
        (losses_that_repeat(3, 9), {"skipped_steps": 1, "updates": 19}),
        (losses_that_repeat(3, 9, 12, move=1e-5), {}),
        (replica(0, losses=(5.0, 2e-5, *(1e-6,) * 18)), {}),
        (losses_that_repeat(3, 9, 12), {"plan": attrs.evolve(expected(), precision="amp-bf16")}),
        (losses_that_repeat(3, 9, 12), {"plan": attrs.evolve(expected(), strategy="parameter_server_async")}),
    ],
    ids=[
        "by chance",
        "skipped by the loss scaler",
        "moves of rounding",
        "at rest",
        "a narrow precision",
        "asynchronous",
    ],
)
def test_a_loss_may_repeat_itself(one, changes):
    assert verdict_of(one, **changes).outcome == PASS
