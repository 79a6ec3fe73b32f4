"""The references that ship with the models, against a second implementation: transformers' networks, torch's steps.

The references were made from the pages of the models; neither they nor this test know the plugin's networks.
"""

import json

import attrs
import pytest
from test_networks import theirs_bert, theirs_resnet

from dlperf_sdk.harness.in_process import MODELS
from dlperf_sdk.interfaces.model import entry_to_dict
from dlperf_sdk.parity.distance import distance
from dlperf_sdk.worker import canonical

torch = pytest.importorskip("torch", reason="the second implementation is made of torch")
transformers = pytest.importorskip("transformers", reason="the second implementation is transformers'")


def case_of(model, name):
    """The case, and its options, manifest, batch of shard 0 and optimizer's numbers."""
    case = json.loads(MODELS[model].references.read_text(encoding="utf-8"))["cases"][name]
    options = MODELS[model].Options(**case["options"])
    inputs = [entry_to_dict(entry) for entry in MODELS[model].inputs(options)]
    arrays = canonical.batch(inputs, case["batch_size"], 0, case["seed"])
    batch = {key: torch.from_numpy(value) for key, value in arrays.items()}
    batch = {key: value.double() if value.is_floating_point() else value for key, value in batch.items()}
    return case, options, batch, MODELS[model].optimizer(options, case["batch_size"]).numbers


def resnet(options, batch):
    """transformers' ResNet-50, and the loss of a step."""
    config = transformers.ResNetConfig(num_labels=options.num_classes)
    network = transformers.ResNetForImageClassification(config)

    def loss():
        logits = network(batch["image"]).logits
        smoothing = options.label_smoothing
        return torch.nn.functional.cross_entropy(logits, batch["label"], label_smoothing=smoothing)

    return network, loss, theirs_resnet


def bert(options, batch):
    """transformers' BERT, and the loss of a step."""
    config = transformers.BertConfig(
        vocab_size=options.vocabulary_size,
        hidden_size=options.hidden_size,
        num_hidden_layers=options.layers,
        num_attention_heads=options.heads,
        intermediate_size=options.intermediate_size,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    network = transformers.BertForPreTraining(config)
    labels = torch.full_like(batch["input_ids"], -100)
    labels = labels.scatter(1, batch["masked_positions"], batch["masked_ids"])

    def loss():
        return network(
            batch["input_ids"],
            batch["attention_mask"],
            batch["segment_ids"],
            labels=labels,
            next_sentence_label=batch["next_sentence_label"],
        ).loss

    return network, loss, theirs_bert


def groups(manifest, parameters, numbers):
    """torch's parameter groups: those that decay, and those that do not."""
    return [
        {
            "params": [parameters[entry.name] for entry in manifest if entry.decay is decays],
            "weight_decay": numbers["weight_decay"] if decays else 0.0,
        }
        for decays in (True, False)
    ]


@pytest.mark.parametrize(
    ("model", "name"),
    [("resnet50", "small"), ("resnet50", "gamma"), ("bert-base", "small"), ("bert-base", "tiny")],
)
def test_reference_equals_transformers_in_float64(model, name):
    case, options, batch, numbers = case_of(model, name)
    network, loss, rename = (resnet if model == "resnet50" else bert)(options, batch)
    network.double().train()
    manifest = MODELS[model].parameters(options)
    theirs = dict(network.named_parameters())
    parameters = {entry.name: theirs[rename(entry.name)] for entry in manifest}
    first = dict(canonical.weights([entry_to_dict(entry) for entry in manifest], case["seed"]))
    with torch.no_grad():
        for key, parameter in parameters.items():
            parameter.copy_(torch.from_numpy(first[key]))
    if model == "resnet50":
        rate, momentum = numbers["learning_rate"], numbers["momentum"]
        optimizer = torch.optim.SGD(groups(manifest, parameters, numbers), lr=rate, momentum=momentum)
    else:
        optimizer = torch.optim.AdamW(
            groups(manifest, parameters, numbers),
            lr=numbers["learning_rate"],
            betas=(numbers["beta1"], numbers["beta2"]),
            eps=numbers["epsilon"],
        )
    right = case["alone"][0]
    for step, expected in enumerate(right["losses"]):
        optimizer.zero_grad()
        value = loss()
        assert value.item() == pytest.approx(expected, rel=1e-11), f"step {step}"
        value.backward()
        if numbers["clip_norm"] is not None:
            # torch's own clip adds 1e-6 to the norm.
            norm = torch.stack([parameter.grad.norm() for parameter in parameters.values()]).norm()
            for parameter in parameters.values():
                parameter.grad.mul_(min(1.0, numbers["clip_norm"] / norm.item()))
        optimizer.step()
        if step == 0:
            for key, parameter in parameters.items():
                ours = canonical.fingerprint(key, parameter.detach().numpy(), first[key])
                # Gradients that are nothing but rounding (of attention's key biases) are noise in float64 as well.
                if case["noise"].get(key, 0.0) < 1:
                    assert distance(tuple(ours), tuple(right["updates"][key])) < 1e-7, key
            buffers = dict(network.named_buffers())
            for key, expected_print in right["running_means"].items():
                ours = canonical.fingerprint(key, buffers[theirs_mean(key)].numpy())
                assert distance(tuple(ours), tuple(expected_print)) < 1e-8, key
    assert set(right["updates"]) == set(parameters)
    assert attrs.asdict(options) == case["options"]


def theirs_mean(name):
    """transformers' name of a running mean."""
    return theirs_resnet(name.replace("running_mean", "weight")).replace("weight", "running_mean")
