"""The base of tensorpack's trainers in dlperf: a model description, the loop of tensorpack's trainer, evidence.

A batch is a list with a dict per tower, from input name to the NumPy array that is fed in place of the input source's
tensor. For an empty dict, a tower takes its batch from the input source.
"""

import itertools

import tensorflow.compat.v1 as tf
from dlperf_tensorflow1.precisions import PRECISIONS
from dlperf_tensorflow1.worker.exchange import Alone
from dlperf_tensorflow1.worker.loss_scale import NoScale
from dlperf_tensorflow1.worker.weights import initial_value, make_variable
from tensorpack import RunUpdateOps, SimpleTrainer
from tensorpack.tfutils.sesscreate import NewSessionCreator
from tensorpack.tfutils.sessinit import JustCurrentSession

from dlperf_sdk.worker.interface import Step
from dlperf_sdk.worker.sources import replace_sources
from dlperf_sdk.worker.unsupported import look_up
from dlperf_tensorpack.worker.evidence import TowerEvidence
from dlperf_tensorpack.worker.inputs import GraphFeed, dataset_input, queue_input, resident_input
from dlperf_tensorpack.worker.model import Model, Tower, TowersOptimizer, TowerWeights
from dlperf_tensorpack.worker.state import TowerState
from dlperf_tensorpack.worker.trainers import TRAINERS, StepValues

INPUTS = {"python-queue": queue_input, "python-dataset": dataset_input}
"""Data source → the function that makes tensorpack's input source, for those that run in the graph."""


def _take_resident(trainer):
    """Return the empty batch without end, for the data source `synthetic`."""
    trainer.load_resident_batches()
    return itertools.repeat(trainer.empty_batch)


def _take_from_graph(trainer):
    """Return the empty batch without end, for the data sources in `INPUTS`."""
    trainer.loaders = [GraphFeed(trainer.request) for _ in trainer.process.replicas]
    return itertools.repeat(trainer.empty_batch)


class TensorpackTrainer(TowerState):
    """The replicas of a network in one process, a tower for each, which tensorpack's own trainer trains.

    A class derives from this and from a model's trainer of the TensorFlow 1 plugin (`build`, `outputs`, `loss`).
    """

    precisions, compilers = {"fp32": PRECISIONS["fp32"]}, {"none": None}
    sources = replace_sources(
        synthetic=_take_resident, **{"python-queue": _take_from_graph, "python-dataset": _take_from_graph}
    )

    # The graph.

    def _build_graph(self):
        """Let tensorpack's trainer build the graph and its session; return the variables of each parameter."""
        look_up("data source", self.request.data["source"], self.sources)  # before the graph changes
        runtime, batches = self.runtime, self.host_batches()
        self.towers, self.empty_batch = [], [{} for _ in batches]
        self.rate = tf.placeholder(tf.float32, (), "rate")
        self.step_number, self.piece_number = tf.placeholder_with_default(tf.constant(0, tf.int64), ()), 0
        self.optimizer = TowersOptimizer(self.request, self.rate)
        self.exchange, self.scaler = Alone(runtime), NoScale()  # tensorpack's trainer synchronizes the towers
        make_input = INPUTS.get(self.request.data["source"])
        source = resident_input(self._add_resident(batches)) if make_input is None else make_input(batches)
        model = Model(self)
        self.trainer = TRAINERS[self.request.strategy](runtime) if runtime.towers > 1 else SimpleTrainer()
        self.trainer.setup_graph(model.get_input_signature(), source, model.build_graph, model.get_optimizer)
        self.values = StepValues([(tower.loss, tower.labels) for tower in self.towers])
        self.trainer.setup_callbacks([self.values, RunUpdateOps()], [])
        self.trainer.initialize(NewSessionCreator(config=runtime.config), JustCurrentSession())
        self.session, runtime.session = self.trainer.sess, self.trainer.hooked_sess
        # What tensorpack's `main_loop` does before the first step: it starts the threads of input sources.
        self.trainer.loop.config(steps_per_epoch=1, starting_epoch=1, max_epoch=1)
        with self.session.as_default():
            self.trainer._callbacks.before_train()
            self.trainer._callbacks.before_epoch()
        names = [entry["name"] for entry in self.request.parameters]
        return {name: list({t.weights.variables[name] for t in self.towers}) for name in names}

    def _add_resident(self, batches):
        """Return the variables on the towers' devices for the canonical batch: a list for each tower."""
        self.resident = []
        for tower, batch in enumerate(batches):
            with tf.device("/gpu:%d" % tower):
                self.resident.append(
                    [make_variable(v.shape, 0, tf.as_dtype(v.dtype)) for v in batch.values()]
                )
        return self.resident

    def add_tower(self, batch):
        """Add the network and the loss to the tower that tensorpack builds; return the loss, a scalar tensor.

        Args:
            batch: Dict from input name to the tensor of the tower's input source.
        """
        self.weights = weights = TowerWeights(self.request.parameters, self.layout.upper(), None)
        self.replica = self.process.replicas[len(self.towers)]
        outputs = self.outputs(self.build(self.request.model_options), batch)
        loss = self.loss(outputs, batch)
        for update in weights.updates:
            tf.add_to_collection(tf.GraphKeys.UPDATE_OPS, update)
        labels = tf.identity(batch[self.label_name])
        self.towers.append(Tower(weights, batch, outputs, loss, labels))
        return loss

    # Batches.

    def place(self, batches):
        """Return `batches`, one dict of NumPy arrays per replica, as a list; a session copies the arrays later."""
        return list(batches)

    def load_resident_batches(self):
        """Set the variables that each tower reads for an empty dict to the canonical batch of the tower's replica."""
        feed, initializers = {}, []
        for variables, batch in zip(self.resident, self.host_batches()):
            for variable, values in zip(variables, batch.values()):
                feed[initial_value(variable)] = values
                initializers.append(variable.initializer)
        self.session.run(initializers, feed)

    def labels(self, batch):
        """Return a list of NumPy arrays, the labels that each replica read in the last step; `batch` is not used."""
        return [labels for _, labels in self.values.results]

    def read_labels(self, labels):
        """Return `labels` unchanged: the list of a NumPy array per replica that the method `labels` returned."""
        return labels

    def take(self, batch):
        """Return a `Step` with the number of samples and a list of each replica's labels in `batch`; train nothing."""
        labels = self.session.run([tower.labels for tower in self.towers], self._feed_for(batch))
        return Step(None, self.request.batch_size * len(self.towers), labels)

    def _feed_for(self, batch):
        """Return what a session is fed in place of the tensors of input sources."""
        return {
            tower.batch[name]: values
            for tower, arrays in zip(self.towers, batch)
            for name, values in arrays.items()
        }

    # The step.

    def train(self, batch, rate):
        """Run a step at the learning rate `rate` on `batch`, a result of `place`; return this process's losses."""
        step = self.steps - self.first_step - 1
        self.values.feed = {**self._feed_for(batch), self.rate: rate, self.step_number: step}
        self.trainer.run_step()
        self.trainer._callbacks.trigger_step()
        return [loss for loss, _ in self.values.results]

    def read_loss(self, loss):
        """Return a list of floats, the loss of each replica; `loss` is the list that `train` returned."""
        return [float(value) for value in loss]

    # Evidence for what was in effect.

    def outputs_and_references(self):
        """Return the logits of the canonical batch twice, as a pair: as in `step`, and in fp32, which is the same here.

        Each is a list of float32 arrays of logits: those of all heads of the first replica, then those of the next.
        """
        logits = [output for tower in self.towers for output in tower.outputs]
        feed = self._feed_for(self.canonical_batch())
        return self.session.run(logits, feed), self.session.run(logits, feed)

    def observe_settings(self):
        """Return a dict: `precision`, `compiler`, `layout` (None if unknown), `strategy` (None for none) in effect."""
        targets = [self.trainer.train_op, *(tower.loss.op for tower in self.towers)]
        evidence = TowerEvidence(targets, [tower.outputs for tower in self.towers])
        self.product_types = evidence.product_types()
        variables = itertools.chain(*self.assigned.values())
        return {
            "precision": self.name_precision({v.dtype for v in variables}, tf32=False),
            "compiler": "none",
            "layout": evidence.layout(),
            "strategy": evidence.strategy(),
        }
