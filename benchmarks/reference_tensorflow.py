"""The TensorFlow plugin's ResNet-50 against keras_hub's in a plain loop: same work, one process, blocks in turns.

    python scripts/in_environment.py tensorflow --with attrs --with regex --with kagglehub --with tokenizers \
        --with sentencepiece --with-alone keras-hub -- benchmarks/reference_tensorflow.py

Theirs: `keras_hub.models.ResNetBackbone` with bottleneck blocks, which is v1.5 (`keras.applications.ResNet50` is
not), a pooling and a dense layer, in the loop that Keras' guide "Writing a training loop from scratch in
TensorFlow" teaches: a `tf.function` with a tape and `optimizer.apply`; `mixed_bfloat16` is Keras' own policy. What
makes the work equal is in `against.py`. keras_hub is installed alone, because tensorflow-text, which it asks for,
would bring another TensorFlow.
"""

from __future__ import annotations

import functools
import sys
from typing import Any

import against
from against import Theirs

from dlperf_sdk.worker.interface import Trainer
from dlperf_sdk.worker.request import Request


def make(policy: str, request: Request, trainer: Trainer) -> Theirs:
    """Return their side: keras_hub's model, compiled into a train step, on our trainer's canonical batch.

    `policy` is the name of a policy of Keras for mixed precision, which is set for the whole process.
    """
    import keras
    import keras_hub
    import tensorflow as tf

    keras.mixed_precision.set_global_policy(policy)
    size, classes = request.model_options["image_size"], request.model_options["num_classes"]
    backbone = keras_hub.models.ResNetBackbone(
        input_conv_filters=[64],
        input_conv_kernel_sizes=[7],
        stackwise_num_filters=[64, 128, 256, 512],
        stackwise_num_blocks=[3, 4, 6, 3],
        stackwise_num_strides=[1, 2, 2, 2],
        block_type="bottleneck_block",
        image_shape=(size, size, 3),
    )
    pooled = keras.layers.GlobalAveragePooling2D()(backbone.output)
    model = keras.Model(backbone.input, keras.layers.Dense(classes, dtype="float32")(pooled))
    numbers = request.optimizer
    optimizer = keras.optimizers.SGD(numbers["learning_rate"], momentum=numbers["momentum"])
    optimizer.build(model.trainable_weights)
    loss_of = keras.losses.SparseCategoricalCrossentropy(from_logits=True)
    batch = trainer.canonical_batch()

    @tf.function
    def train_step(x: Any, y: Any) -> Any:
        with tf.GradientTape() as tape:
            logits = model(x, training=True)
            loss = loss_of(y, logits)
        optimizer.apply(tape.gradient(loss, model.trainable_weights), model.trainable_weights)
        return loss

    losses: list[Any] = [None]

    def step() -> None:
        losses[0] = train_step(batch["image"], batch["label"])

    def forward(image: Any) -> Any:
        return trainer.outputs(trainer.network, {"image": image})

    return Theirs(
        step,
        lambda: float(losses[0]),
        sum(int(weight.shape.num_elements()) for weight in model.trainable_weights),
        (flops(forward, batch["image"]), flops(lambda image: model(image, training=True), batch["image"])),
    )


def flops(forward: Any, image: Any) -> float:
    """Return TensorFlow's own count of multiplications and additions in convolutions and matrix products.

    `forward` is a function of images, and `image` an example of them.
    """
    import tensorflow as tf
    from tensorflow.python.framework import ops

    graph = tf.function(forward).get_concrete_function(tf.TensorSpec(image.shape, image.dtype)).graph
    counted = (
        ops.get_stats_for_node_def(graph, node.node_def, "flops").value
        for node in graph.get_operations()
        if node.type in ("Conv2D", "MatMul")
    )
    return float(sum(count or 0 for count in counted))


if __name__ == "__main__":
    sys.exit(
        against.main(
            __doc__,
            "dlperf_tensorflow.framework:TensorFlow",
            ("tensorflow-cpu", "keras", "keras-hub"),
            {
                "fp32": functools.partial(make, "float32"),
                "amp-bf16": functools.partial(make, "mixed_bfloat16"),
            },
        )
    )
