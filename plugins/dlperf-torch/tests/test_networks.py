"""The networks against their manifests, and against another implementation with the same weights."""

import pytest

from dlperf_sdk.harness.in_process import MODELS, SMALL

torch = pytest.importorskip("torch", reason="the worker half needs torch, which is not in this environment")


@pytest.mark.parametrize("model", MODELS)
def test_parameters_are_the_manifests(make_trainer, model):
    trainer = make_trainer(model)
    actual = {name: list(p.shape) for name, p in trainer.network.named_parameters()}
    assert actual == {entry["name"]: entry["shape"] for entry in trainer.request.parameters}


@pytest.mark.parametrize(("model", "count"), [("resnet50", 25_557_032), ("bert-base", 110_106_428)])
def test_full_size(model, count):
    from dlperf_torch.worker.bert_base import Bert
    from dlperf_torch.worker.resnet50 import ResNet50

    with torch.device("meta"):
        network = ResNet50(1000) if model == "resnet50" else Bert(30522, 768, 12, 3072, 12, 0.1)
    assert sum(parameter.numel() for parameter in network.parameters()) == count
    manifest = MODELS[model].parameters(MODELS[model].Options())
    assert {p.name: p.shape for p in manifest} == {
        name: tuple(parameter.shape) for name, parameter in network.named_parameters()
    }


def theirs_resnet(name):
    """transformers' name of one of our ResNet's parameters."""
    parts = name.split(".")
    kinds = {"conv": "convolution", "bn": "normalization"}
    if parts[0] == "fc":
        return f"classifier.1.{parts[1]}"
    if not parts[0].startswith("layer"):
        return f"resnet.embedder.embedder.{kinds[parts[0][:-1]]}.{parts[1]}"
    block = f"resnet.encoder.stages.{int(parts[0][-1]) - 1}.layers.{parts[1]}"
    if parts[2] == "downsample":
        return f"{block}.shortcut.{['convolution', 'normalization'][int(parts[3])]}.{parts[4]}"
    return f"{block}.layer.{int(parts[2][-1]) - 1}.{kinds[parts[2][:-1]]}.{parts[3]}"


def theirs_bert(name):
    """transformers' name of one of our BERT's parameters."""
    renamed = {
        "embeddings.word": "bert.embeddings.word_embeddings",
        "embeddings.position": "bert.embeddings.position_embeddings",
        "embeddings.segment": "bert.embeddings.token_type_embeddings",
        "embeddings.norm": "bert.embeddings.LayerNorm",
        "pooler": "bert.pooler.dense",
        "next_sentence": "cls.seq_relationship",
        "masked_lm.transform": "cls.predictions.transform.dense",
        "masked_lm.norm": "cls.predictions.transform.LayerNorm",
        "masked_lm": "cls.predictions",
        "attention.query": "attention.self.query",
        "attention.key": "attention.self.key",
        "attention.value": "attention.self.value",
        "attention.output": "attention.output.dense",
        "attention.norm": "attention.output.LayerNorm",
        "intermediate": "intermediate.dense",
        "output": "output.dense",
        "norm": "output.LayerNorm",
    }
    module, _, kind = name.rpartition(".")
    if module.startswith("encoder."):
        _, index, inside = module.split(".", 2)
        return f"bert.encoder.layer.{index}.{renamed[inside]}.{kind}"
    return f"{renamed[module]}.{kind}"


def agree(trainer, other, names, loss, other_loss):
    """Loss and every gradient of the two networks are equal up to float64's rounding."""
    ours, parameters = dict(trainer.network.named_parameters()), dict(other.named_parameters())
    assert sorted(names) == sorted(parameters)
    loss.backward()
    other_loss.backward()
    torch.testing.assert_close(loss, other_loss, rtol=1e-12, atol=0)
    for name, own in names.items():
        apart = (parameters[name].grad - ours[own].grad).norm()
        assert apart <= 1e-9 * ours[own].grad.norm() + 1e-14, own


def doubled(trainer, other, rename):
    """Both networks in float64 with the canonical weights; the names of the other's parameters → ours."""
    names = {rename(own): own for own, _ in trainer.network.named_parameters()}
    trainer.network.double()
    other.double().train()
    ours = dict(trainer.network.named_parameters())
    with torch.no_grad():
        for name, parameter in other.named_parameters():
            parameter.copy_(ours[names[name]])
    return names


def test_resnet50_equals_transformers(make_trainer):
    transformers = pytest.importorskip("transformers", reason="the second implementation is transformers'")
    trainer = make_trainer("resnet50", options={"last_gamma": 0.2, "label_smoothing": 0.0})
    other = transformers.ResNetForImageClassification(transformers.ResNetConfig(num_labels=10))
    names = doubled(trainer, other, theirs_resnet)
    batch = trainer.canonical_batch()
    batch["image"] = batch["image"].double()
    loss = trainer.loss(trainer.outputs(trainer.network, batch), batch)
    agree(trainer, other, names, loss, other(batch["image"], labels=batch["label"]).loss)


def test_bert_base_equals_transformers(make_trainer):
    transformers = pytest.importorskip("transformers", reason="the second implementation is transformers'")
    trainer = make_trainer("bert-base", options={"layers": 2})
    options = {**SMALL["bert-base"], "layers": 2}
    config = transformers.BertConfig(
        vocab_size=options["vocabulary_size"],
        hidden_size=options["hidden_size"],
        num_hidden_layers=options["layers"],
        num_attention_heads=options["heads"],
        intermediate_size=options["intermediate_size"],
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    other = transformers.BertForPreTraining(config)
    names = doubled(trainer, other, theirs_bert)
    batch = trainer.canonical_batch()
    # Real text has padding, and predictions that are not used.
    batch["attention_mask"][:, 13:] = 0
    batch["masked_weights"][1, 2] = 0.0
    positions = batch["masked_positions"].masked_fill(batch["masked_weights"] == 0, 0)
    labels = torch.full_like(batch["input_ids"], -100).scatter(1, positions, batch["masked_ids"])
    labels[:, 0] = -100
    loss = trainer.loss(trainer.outputs(trainer.network, batch), batch)
    theirs = other(
        batch["input_ids"],
        batch["attention_mask"],
        batch["segment_ids"],
        labels=labels,
        next_sentence_label=batch["next_sentence_label"],
    ).loss
    agree(trainer, other, names, loss, theirs)
