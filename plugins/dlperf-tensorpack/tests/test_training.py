"""The worker half in one process: tensorpack's trainers, their steps, and the data sources."""
# ruff: noqa: B905 - Python 3.7 has no strict zip.

import itertools

import numpy as np
import pytest

pytest.importorskip("tensorpack", reason="the worker half needs tensorpack, which is not in this environment")

PAIR = {"devices_per_node": 2}
STRATEGIES = {
    "all_reduce": "SyncMultiGPUTrainerReplicated",
    "parameter_server": "SyncMultiGPUTrainerParameterServer",
}


def losses(trainer, steps):
    batch = trainer.canonical_batch()
    return [trainer.read_loss(trainer.step(batch).loss) for _ in range(steps)]


@pytest.mark.parametrize(("model", "means"), [("resnet50", 53), ("bert-base", 0)])
def test_it_trains_as_the_plugin_of_tensorflow(make_trainer, model, means):
    options = {"weight_decay": 0.01}
    own, other = (make_trainer(model, plugin, options=options) for plugin in ("tensorpack", "tensorflow1"))
    assert type(own.trainer).__name__ == "SimpleTrainer"
    assert np.array(losses(own, 3)) == pytest.approx(np.array(losses(other, 3)), rel=1e-5)
    for (name, values), (_, expected) in zip(own.parameters(0), other.parameters(0)):
        np.testing.assert_allclose(values, expected, rtol=1e-3, atol=1e-5, err_msg=name)
    expected_means = dict(other.running_means(0))
    for name, values in own.running_means(0):
        np.testing.assert_allclose(values, expected_means[name], rtol=1e-3, atol=1e-5, err_msg=name)
    assert len(expected_means) == means
    assert [name for name, _ in own.moments(0)] == [name for name, _ in other.moments(0)]
    assert own.count_updates() == other.count_updates()


@pytest.mark.parametrize(("model", "updates"), [("resnet50", None), ("bert-base", 3)])
def test_two_towers_learn_the_same_with_both_trainers(make_trainer, model, updates):
    trainers = [make_trainer(model, strategy=strategy, **PAIR) for strategy in STRATEGIES]
    assert [type(trainer.trainer).__name__ for trainer in trainers] == list(STRATEGIES.values())
    first, second = (np.array(losses(trainer, 3)) for trainer in trainers)
    assert first == pytest.approx(second, rel=1e-5)
    assert (first[:, 0] != first[:, 1]).all()
    for trainer, strategy in zip(trainers, STRATEGIES):
        assert trainer.observed()["strategy"] == strategy
        for (name, values), (_, copy) in zip(trainer.parameters(0), trainer.parameters(1)):
            assert (values == copy).all(), name
        assert trainer.count_updates() == updates


def test_dropout_masks_differ_between_towers_and_follow_the_seed(make_trainer):
    options = {"dropout": 0.5, "learning_rate": 0.0}
    trainer = make_trainer("bert-base", strategy="all_reduce", options=options, **PAIR)
    same = [trainer.host_batches()[0]] * 2
    first = [trainer.read_loss(trainer.step(same).loss) for _ in range(2)]
    assert len({loss for step in first for loss in step}) == 4
    trainer.reset()
    assert trainer.read_loss(trainer.step(same).loss) == pytest.approx(first[0], rel=1e-6)


def test_the_towers_are_on_separate_devices(make_trainer):
    trainer = make_trainer("resnet50", strategy="all_reduce", **PAIR)
    devices = [tower.outputs[0].device for tower in trainer.towers]
    assert devices == ["/device:CPU:0", "/device:CPU:1"]


def test_a_step_is_one_run_of_the_hooked_session(make_trainer):
    trainer = make_trainer("resnet50")
    before = trainer.trainer.global_step
    losses(trainer, 2)
    assert (trainer.trainer.global_step, trainer.skipped_steps()) == (before + 2, 0)


@pytest.mark.parametrize("model", ["resnet50", "bert-base"])
def test_a_reset_repeats_the_losses(make_trainer, model):
    trainer = make_trainer(model)
    first = losses(trainer, 3)
    trainer.reset()
    assert all(not values.any() for _, values in trainer.moments(0))
    assert not trainer.count_updates()
    assert np.array(losses(trainer, 3)) == pytest.approx(np.array(first), rel=1e-6)


def test_an_update_without_the_gradients_of_a_tower_is_an_error(make_trainer):
    from dlperf_tensorpack.worker.evidence import TowerEvidence

    trainer = make_trainer("resnet50")
    alone = [trainer.trainer.train_op]
    foreign = (trainer.resident[0][0].initializer.inputs[1],)
    assert TowerEvidence(alone, [trainer.towers[0].outputs]).strategy() is None
    with pytest.raises(ValueError, match="do not depend on all towers"):
        TowerEvidence(alone, [trainer.towers[0].outputs, foreign]).strategy()


@pytest.mark.parametrize("source", ["synthetic", "synthetic-host", "python-queue", "python-dataset"])
@pytest.mark.parametrize("devices", [1, 2])
def test_each_tower_takes_its_replica_s_batch(make_trainer, source, devices):
    trainer = make_trainer(
        "resnet50", data={"source": source}, devices_per_node=devices, strategy="all_reduce"
    )
    expected = losses(trainer, 2)
    labels = [batch["label"] for batch in trainer.host_batches()]
    trainer.reset()
    batches = trainer.batches()
    steps = [trainer.step(batch) for batch in itertools.islice(batches, 2)]
    assert np.array([trainer.read_loss(step.loss) for step in steps]) == pytest.approx(
        np.array(expected), rel=1e-6
    )
    for step in [*steps, trainer.take(next(batches))]:
        assert all((a == b).all() for a, b in zip(trainer.read_labels(step.labels), labels))
