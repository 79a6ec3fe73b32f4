"""The worker half in one process: arithmetic that no other test looks at, data sources, and what a step leaves."""
# ruff: noqa: B905 - Python 3.7 has no strict zip.

import itertools
import time
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import numpy as np
import pytest

tf = pytest.importorskip(
    "tensorflow.compat.v1", reason="the worker half needs TensorFlow, which is not in this environment"
)


def losses(trainer, steps):
    batch = trainer.canonical_batch()
    handles = [trainer.step(batch) for _ in range(steps)]
    return [trainer.read_loss(step.loss)[0] for step in handles]


def updated(trainer, rates):
    """Return the parameters before, the made-up gradients of each step, and the parameters after."""
    chance = np.random.RandomState(1)
    before = {name: values.astype(np.float64) for name, values in trainer.parameters(0)}
    with trainer.runtime.graph.as_default():
        shapes = [trainer.weights.variables[entry["name"]].shape for entry in trainer.request.parameters]
        inputs = [tf.placeholder(tf.float32, shape) for shape in shapes]
        update = trainer.optimizer.apply(inputs, trainer.rate)
    gradients = []
    for rate in rates:
        gradients.append([1e-2 * chance.standard_normal(shape.as_list()) for shape in shapes])
        trainer.session.run(update, {trainer.rate: rate, **dict(zip(inputs, gradients[-1]))})
    names = [entry["name"] for entry in trainer.request.parameters]
    of_names = [
        {name: trainer.weights.to_manifest(name, values) for name, values in zip(names, step)}
        for step in gradients
    ]
    return before, of_names, dict(trainer.parameters(0))


def test_adamw_is_the_formula_in_float64(make_trainer):
    options = {"weight_decay": 0.1, "clip_norm": None}
    trainer = make_trainer("bert-base", options=options)
    numbers, rates = trainer.request.optimizer, (1e-3, 2e-3, 1e-3)
    theta, gradients, after = updated(trainer, rates)
    b1, b2 = numbers["beta1"], numbers["beta2"]
    for name, decay in (("pooler.weight", numbers["weight_decay"]), ("pooler.bias", 0.0)):
        m = v = 0.0
        for t, (rate, step) in enumerate(zip(rates, gradients), start=1):
            g = step[name]
            m, v = b1 * m + (1 - b1) * g, b2 * v + (1 - b2) * g * g
            ratio = m / (1 - b1**t) / (np.sqrt(v / (1 - b2**t)) + numbers["epsilon"])
            theta[name] = theta[name] - rate * (ratio + decay * theta[name])
        np.testing.assert_allclose(after[name], theta[name], atol=1e-6)
    assert trainer.count_updates() == 3


def test_adamw_changes_nothing_before_the_gradient_is_there(make_trainer):
    trainer = make_trainer("bert-base", options={"weight_decay": 0.5})
    seen = []

    def read_late(*arrays):
        time.sleep(0.5)
        seen.extend(trainer.session.run([weights, trainer.optimizer.steps]))
        return arrays

    weights = trainer.weights.variables["pooler.weight"]
    before = trainer.session.run(weights)
    with trainer.runtime.graph.as_default():
        zeros = [tf.zeros(trainer.weights.variables[name].shape) for name in trainer.optimizer.names]
        gradients = tf.py_func(read_late, zeros, [tf.float32] * len(zeros))
        for gradient, zero in zip(gradients, zeros):
            gradient.set_shape(zero.shape)
        update = trainer.optimizer.apply(gradients, trainer.rate)
    trainer.session.run(update, {trainer.rate: 0.5})
    np.testing.assert_array_equal(seen[0], before)
    assert seen[1] == 0
    assert not np.array_equal(trainer.session.run(weights), before)


def test_momentum_is_the_formula_under_a_changing_rate(make_trainer):
    trainer = make_trainer("resnet50", options={"weight_decay": 0.01})
    numbers, rates = trainer.request.optimizer, (0.5, 0.1, 0.2)
    theta, gradients, after = updated(trainer, rates)
    for name, decay in (("conv1.weight", numbers["weight_decay"]), ("bn1.weight", 0.0)):
        velocity = 0.0
        for rate, step in zip(rates, gradients):
            velocity = numbers["momentum"] * velocity + step[name] + decay * theta[name]
            theta[name] = theta[name] - rate * velocity
        np.testing.assert_allclose(after[name], theta[name], rtol=1e-5, atol=1e-6)


def test_gradient_accumulation_is_one_step(make_trainer):
    whole, parts = (make_trainer("bert-base", accumulation=n) for n in (1, 2))
    assert losses(parts, 3) == pytest.approx(losses(whole, 3), rel=2e-6)
    assert parts.count_updates() == 3


def test_xla_compiles_the_step_and_trains_the_same(make_trainer):
    trainers = [make_trainer("bert-base", compiler=name) for name in ("none", "xla")]
    assert all("compiler" not in trainer.observed() for trainer in trainers)
    plain, compiled = (losses(trainer, 3) for trainer in trainers)
    assert [trainer.observed()["compiler"] for trainer in trainers] == ["none", "xla"]
    assert compiled == pytest.approx(plain, rel=1e-5)


@pytest.mark.parametrize("model", ["resnet50", "bert-base"])
def test_mixed_precision_computes_products_in_float16_from_float32_weights(make_trainer, model):
    """Only the graph: TensorFlow has batch norm in float16 for GPUs only."""
    trainer = make_trainer(model, precision="amp-fp16")
    assert {v.dtype for v in trainer.weights.variables.values()} == {tf.float32}
    assert {v.dtype for v in trainer.optimizer.state() if v is not trainer.optimizer.steps} == {tf.float32}
    assert trainer.observed()["precision"] == "amp-fp16"
    assert set(trainer.product_types) == {tf.float16}
    assert trainer.mean_loss.dtype == tf.float32


def test_mixed_precision_trains_bert(make_trainer):
    plain, mixed = (make_trainer("bert-base", precision=name) for name in ("fp32", "amp-fp16"))
    assert 1e-5 < mixed.deviation() < 1e-2
    assert losses(mixed, 3) == pytest.approx(losses(plain, 3), rel=1e-2)
    assert (mixed.skipped_steps(), mixed.count_updates()) == (0, 3)


def test_the_loss_scale_skips_gradients_that_are_not_finite_and_grows_after_good_steps(
    make_trainer, monkeypatch
):
    from dlperf_tensorflow1.worker import loss_scale

    monkeypatch.setattr(loss_scale, "GROWTH_STEPS", 2)
    trainer = make_trainer("bert-base", precision="amp-fp16", options={"clip_norm": None})
    with trainer.runtime.graph.as_default():
        shapes = [trainer.weights.variables[name].shape for name in trainer.optimizer.names]
        inputs = [tf.placeholder(tf.float32, shape) for shape in shapes]
        update = trainer.scaler.update(
            inputs, lambda gradients: trainer.optimizer.apply(gradients, trainer.rate)
        )

    def step(value):
        feed = {gradient: np.full(gradient.shape.as_list(), value, np.float32) for gradient in inputs}
        trainer.session.run(update, {trainer.rate: 0.1, **feed})
        return (
            trainer.session.run(trainer.scaler.state()[0]),
            trainer.skipped_steps(),
            trainer.count_updates(),
        )

    first = loss_scale.FIRST_SCALE
    before = dict(trainer.parameters(0))
    assert step(np.inf) == (first / 2, 1, 0)
    for name, values in trainer.parameters(0):
        np.testing.assert_array_equal(values, before[name])
    assert step(1.0) == (first / 2, 1, 1)
    assert step(1.0) == (first, 1, 2)
    assert step(np.nan) == (first / 2, 2, 2)
    trainer.reset()
    assert trainer.session.run(trainer.scaler.state()) == [first, 0]


def test_dropout_masks_differ_between_steps_and_follow_the_seed(make_trainer):
    trainer = make_trainer("bert-base", options={"dropout": 0.5, "learning_rate": 0.0})
    assert trainer.deviation() < 1e-6
    first = losses(trainer, 3)
    assert len(set(first)) == 3
    trainer.reset()
    assert losses(trainer, 3) == pytest.approx(first, rel=1e-6)


def test_running_means_move_by_a_tenth_and_evidence_leaves_them(make_trainer):
    trainer = make_trainer("resnet50")
    trainer.deviation()
    assert all(not values.any() for _, values in trainer.running_means(0))
    image = trainer.canonical_batch()["image"]
    kernel = trainer.weights.to_variable("conv1.weight", dict(trainer.parameters(0))["conv1.weight"])
    losses(trainer, 1)
    means = dict(trainer.running_means(0))
    assert len(means) == 53
    with tf.Graph().as_default(), tf.Session() as session:
        padded = [[0, 0], [3, 3], [3, 3], [0, 0]]
        convolved = tf.nn.conv2d(image, kernel, 2, padded)
        expected = 0.1 * session.run(tf.reduce_mean(convolved, (0, 1, 2)))
    np.testing.assert_allclose(means["bn1.running_mean"], expected, atol=1e-6)


def test_synthetic_batches_are_in_the_graph(make_trainer):
    trainer = make_trainer("resnet50")
    expected = losses(trainer, 2)
    trainer.reset()
    handles = [trainer.step(batch) for batch in itertools.islice(trainer.batches(), 2)]
    assert [trainer.read_loss(step.loss)[0] for step in handles] == pytest.approx(expected, rel=1e-6)
    label = trainer.canonical_batch()["label"]
    assert all((trainer.read_labels(step.labels)[0] == label).all() for step in handles)


@pytest.mark.parametrize("source", ["synthetic-host", "python-queue", "python-dataset"])
def test_fed_batches_are_the_canonical_one(make_trainer, source):
    trainer = make_trainer("bert-base", data={"source": source})
    expected = trainer.canonical_batch()
    for batch in itertools.islice(trainer.batches(), 3):
        assert batch.keys() == expected.keys()
        assert all((batch[name] == values).all() for name, values in expected.items())


def test_out_of_memory_is_known(make_trainer):
    runtime = make_trainer("bert-base").runtime
    assert runtime.is_out_of_memory(tf.errors.ResourceExhaustedError(None, None, "OOM when allocating"))
    assert runtime.is_out_of_memory(MemoryError())
    assert not runtime.is_out_of_memory(ValueError("OOM"))


def test_replicas_wait_for_each_other_around_a_reset_of_shared_variables(served_pair):
    first, second = served_pair
    loaded, returned = Event(), Event()
    load_weights, reset_optimizer = first.load_canonical_weights, second.reset_optimizer

    def load_early(parameters):
        load_weights(parameters)
        loaded.set()

    def reset_late():
        if returned.wait(2):
            time.sleep(1)
        reset_optimizer()

    def repeat(trainer):
        expected = losses(trainer, 3)
        if trainer is second:
            loaded.wait(2)
        trained = dict(trainer.parameters(0))
        trainer.reset()
        returned.set()
        return expected, trained, losses(trainer, 3), trainer.count_updates()

    first.load_canonical_weights, second.reset_optimizer = load_early, reset_late
    with ThreadPoolExecutor(2) as pool:
        answers = list(pool.map(repeat, served_pair))
    for expected, _, repeated, updates in answers:
        assert repeated == pytest.approx(expected, rel=2e-6)
        assert updates == 3
    for name, values in answers[0][1].items():
        np.testing.assert_array_equal(values, answers[1][1][name])


def test_the_graph_tells_which_strategy_has_parameter_servers(served_pair):
    assert [trainer.observed()["strategy"] for trainer in served_pair] == [
        trainer.request.strategy for trainer in served_pair
    ]


def train_both(pair, steps=3):
    """Return the losses of each of two replicas."""
    with ThreadPoolExecutor(2) as pool:
        return list(pool.map(lambda trainer: losses(trainer, steps), pair))


def test_each_replica_trains_on_a_copy_that_equals_the_servers_parameters(replicated_pair):
    for rank, trainer in enumerate(replicated_pair):
        read, served = trainer.weights.variables, trainer.optimizer.weights.variables
        assert {variable.device for variable in read.values()} == {f"/job:worker/task:{rank}/device:CPU:0"}
        assert {variable.device for variable in served.values()} == {"/job:ps/task:0/device:CPU:0"}
    before = dict(replicated_pair[0].parameters(0))
    train_both(replicated_pair)
    for trainer in replicated_pair:
        read, served = trainer.session.run([trainer.weights.variables, trainer.optimizer.weights.variables])
        assert read.keys() == served.keys() == before.keys()
        for name, values in served.items():
            np.testing.assert_array_equal(read[name], values)
    after = dict(replicated_pair[1].parameters(0))
    assert all(not np.array_equal(values, before[name]) for name, values in after.items())


def test_no_replica_copies_parameters_that_another_is_still_to_initialize(late_pair):
    first, second = [dict(trainer.parameters(0)) for trainer in late_pair]
    for name, values in first.items():
        np.testing.assert_array_equal(values, second[name])


def test_a_replica_that_does_not_renew_its_copies_is_found(stale_pair):
    """The strategy in effect is not the requested one, and the losses do not follow the reference."""
    for of_replica in train_both(stale_pair):
        assert of_replica == pytest.approx([of_replica[0]] * 3, rel=1e-6)
    assert [trainer.observed()["strategy"] for trainer in stale_pair] == ["parameter_server"] * 2
