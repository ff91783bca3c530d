import json
import math

import numpy as np
import pytest
import torch

from arena.judges import JUDGES, JudgeView, Statement
from arena.judges.classifier import ClassifierJudge, classifier_network, load_classifier
from arena.protocols.errors import ConfigError
from arena.protocols.records import Quote, VerdictStatus

ITEMS = [f"b{index}" for index in range(12)]
LABELS = ["d0", "d1", "d2", "d3"]


def make(seed=0):
    network = classifier_network(len(ITEMS), len(LABELS), 16, generator=torch.Generator().manual_seed(seed))
    return ClassifierJudge(network, ITEMS, LABELS)


def view(words, answers=("d0", "d2"), fields=None, **quote):
    quotes = tuple(Quote(word, **{"verified": True, **quote}) for word in words)
    return JudgeView("k", "Which?", answers, [Statement("first", 0, "", quotes)], fields or {})


def logits(judge, words):
    """The network by hand, in float64."""
    weights = {name: tensor.double().numpy() for name, tensor in judge.network.state_dict().items()}
    hidden = np.array([float(word in words) for word in ITEMS])
    for layer in ("0", "2", "4"):
        hidden = weights[f"{layer}.weight"] @ hidden + weights[f"{layer}.bias"]
        hidden = np.maximum(hidden, 0) if layer != "4" else hidden
    return hidden


def test_the_verdict_is_the_softmax_over_the_answers_in_dispute():
    judge = make()
    for words, answers in ([["b1", "b7"], ("d0", "d2")], [[], ("d3", "d1")], [ITEMS, ("d1", "d2", "d0")]):
        chosen = logits(judge, words)[[LABELS.index(answer) for answer in answers]]
        expected = chosen - np.log(np.exp(chosen).sum())
        (verdict,) = judge.judge([view(words, answers)])
        assert verdict.logps == pytest.approx(tuple(expected), abs=1e-5)
        assert math.fsum(map(math.exp, verdict.logps)) == pytest.approx(1, abs=1e-12)
        assert verdict.choice == int(expected.argmax())


def test_no_verdict_depends_on_the_batch_to_the_last_bit():
    judge = make()
    rng = np.random.default_rng(3)
    views = [
        view(list(rng.permutation(ITEMS)[: rng.integers(0, 12)]), tuple(rng.permutation(LABELS)[:2]))
        for _ in range(300)
    ]
    together = [verdict.logps for verdict in judge.judge(views)]
    order = rng.permutation(300)
    shuffled = judge.judge([views[index] for index in order])
    assert [together[index] for index in order] == [verdict.logps for verdict in shuffled]
    assert together[:20] == [judge.judge([one])[0].logps for one in views[:20]]


def test_only_good_quotes_count_and_unknown_ones_are_listed():
    judge = make()
    nothing = judge.judge([view([])])[0].logps
    assert judge.judge([view(["b3"], verified=False)])[0].logps == nothing
    assert judge.judge([view(["b3"], repeated=True)])[0].logps == nothing
    assert judge.judge([view(["b3"])])[0].logps != nothing
    (verdict,) = judge.judge([view(["zz", "b3"])])
    assert verdict.logps == judge.judge([view(["b3"])])[0].logps
    assert verdict.evidence == {"unknown": ["zz"]}


def test_the_whole_evidence_is_read_where_the_judge_may_see_it():
    judge = make()
    assert (
        judge.judge([view([], fields={"evidence": ["b1", "b2"]})])[0].logps
        == judge.judge([view(["b2", "b1"])])[0].logps
    )
    assert judge.judge([view([], fields={"passage": ["b1", "b2"]})])[0].logps == judge.judge([view([])])[0].logps


def test_what_cannot_be_decided_says_why():
    unknown, single, three = make().judge([view([], ("d0", "cat")), view([], ("d1",)), view([], ("d0", "d1", "d2"))])
    assert unknown.status is single.status is VerdictStatus.ABSTAIN
    assert unknown.logps == ()
    assert "'cat' is none of the judge's 4 labels" in unknown.evidence["reason"]
    assert "1 answers" in single.evidence["reason"]
    assert three.status is VerdictStatus.SCORED
    assert make().judge([]) == []
    broken = make()
    broken.network[4].bias.data[0] = float("nan")
    assert "not finite" in broken.judge([view([])])[0].evidence["reason"]


def test_equal_logits_are_a_tie():
    judge = make()
    judge.network[4].weight.data[2] = judge.network[4].weight.data[0]
    judge.network[4].bias.data[2] = judge.network[4].bias.data[0]
    assert judge.judge([view(["b1"])])[0].status is VerdictStatus.TIE


def test_a_saved_judge_comes_back_as_the_same_instrument(tmp_path):
    judge = make()
    judge.report["accuracy"] = 0.5
    judge.save(tmp_path)
    again = JUDGES.build(f"classifier:path={tmp_path}")
    assert again.name == judge.name != make(1).name
    assert again.report == {"accuracy": 0.5}
    assert again.judge([view(["b1"])])[0] == judge.judge([view(["b1"])])[0]
    make(1).save(tmp_path / "other")
    (tmp_path / "other" / "judge.safetensors").replace(tmp_path / "judge.safetensors")
    with pytest.raises(ConfigError, match="files are mixed"):
        load_classifier(str(tmp_path))
    with pytest.raises(ConfigError, match="holds no classifier judge"):
        load_classifier(str(tmp_path / "nowhere"))
    (tmp_path / "judge.json").write_text(json.dumps({"kind": "llm"}))
    with pytest.raises(ConfigError, match="of kind 'llm'"):
        load_classifier(str(tmp_path))


def test_building_a_network_leaves_the_global_generator_alone():
    state = torch.random.get_rng_state()
    make()
    assert torch.equal(state, torch.random.get_rng_state())
