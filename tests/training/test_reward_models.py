import json
import math

import numpy as np
import pytest
import torch

from arena.agents.models import tiny
from arena.judges import JUDGES, JudgeView, Statement
from arena.protocols.errors import ConfigError, NumericalError, SourceError
from arena.protocols.registry import Spec
from arena.training.judge_data import DATA, Example
from arena.training.judge_measures import measure
from arena.training.judge_methods import METHODS
from arena.training.judge_recipes import load_judge_recipe
from arena.training.learner_config import OptimizerConfig
from arena.training.objectives.supervised import rm_bt, rm_pointwise
from arena.training.preference_data import preferences, read_pairs, synthetic_preferences, synthetic_steps
from arena.training.reward_config import BradleyTerry, Pointwise, Process

TINY = {"kind": "tiny", "words": "q{0..1} g{0..5} ann bob", "hidden": 16, "intermediate": 32, "layers": 1, "heads": 2}


def start(kind="reward-model", **args):
    return Spec(kind, {"model": TINY, **args})


def pair(key, better, worse, label=0, **more):
    answers = (better, worse) if label == 0 else (worse, better)
    return Example(JudgeView(key, "q0", answers, answers_argued=(0, 1)), label, key, **more)


def stated(key, first, second, label, steps=(), question="q0"):
    """A debate with statements for two answers in turn."""
    said = [
        Statement(f"s{side}", side, text)
        for texts in zip(first, second, strict=True)
        for side, text in enumerate(texts)
    ]
    return Example(JudgeView(key, question, ("ann", "bob"), said, answers_argued=(0, 1)), label, key, steps=steps)


# -- objectives, beside the golden vectors


def test_bradley_terry_by_hand():
    # leads 2 and -1: -log sigmoid(2) = 0.126928, -log sigmoid(-1) = 1.313262
    found = rm_bt(torch.tensor([3.0, 0.0]), torch.tensor([1.0, 1.0]))
    assert float(found["loss"]) == pytest.approx((0.126928 + 1.313262) / 2, abs=1e-6)
    assert float(found["accuracy"]) == 0.5
    assert float(rm_bt(torch.zeros(2), torch.zeros(2))["accuracy"]) == 0.5  # ties count half


def test_a_soft_label_of_one_half_is_smallest_without_a_lead():
    lead = torch.linspace(-3, 3, 61)
    losses = [float(rm_bt(x[None], torch.zeros(1), soft_label_B=torch.tensor([0.5]))["loss"]) for x in lead]
    assert int(np.argmin(losses)) == 30


def test_what_has_no_weight_influences_nothing():
    scores = torch.tensor([0.3, math.nan], requires_grad=True)
    loss = rm_pointwise(scores, torch.tensor([1.0, 0.0]), kind="bce", weights=torch.tensor([1.0, 0.0]))
    loss.backward()
    assert float(loss.detach()) == pytest.approx(math.log1p(math.exp(-0.3)))
    assert scores.grad.tolist() == pytest.approx([-1 / (1 + math.exp(0.3)), 0.0])


# -- data


def test_the_stated_share_of_synthetic_labels_is_wrong():
    data = synthetic_preferences(noise=0.25, train=400, held_out=200, seed=1)
    true = synthetic_preferences(noise=0.0, train=400, held_out=200, seed=1)
    wrong = [one.label != other.label for one, other in zip(data.held_out, true.held_out, strict=True)]
    assert sum(wrong) == 50
    assert data.notes["bayes_accuracy"] == 0.75
    assert true.notes["bayes_accuracy"] == 1.0


def test_true_labels_follow_one_worth_a_word():
    """A linear fit of the differences of word counts separates the pairs of each question."""
    from sklearn.linear_model import LogisticRegression

    data = synthetic_preferences(noise=0.0, words=6, train=1500, held_out=10, seed=0)
    for question in ("q0", "q1"):
        examples = [example for example in data.train if example.view.question == question]
        counts = [[[answer.split().count(f"g{w}") for w in range(6)] for answer in e.view.answers] for e in examples]
        lead = np.array([first for first, _ in counts]) - np.array([second for _, second in counts])
        fit = LogisticRegression(C=1e4, max_iter=1000, fit_intercept=False).fit(lead, [e.label for e in examples])
        assert fit.score(lead, [e.label for e in examples]) > 0.99


def test_measured_on_true_labels_the_best_rule_is_always_right():
    data = synthetic_preferences(noise=0.25, clean=True, train=10, held_out=100, seed=1)
    true = synthetic_preferences(noise=0.0, train=10, held_out=100, seed=1)
    assert [e.label for e in data.held_out] == [e.label for e in true.held_out]
    assert (data.notes["bayes_accuracy"], data.notes["held_out_labels"]) == (1.0, "true")


def test_the_right_chain_adds_up_and_the_other_errs_once():
    data = synthetic_steps(noise=0.0, modulus=5, length=4, train=50, held_out=5, seed=0)
    data.check()
    for example in data.train:
        start, *addends = (int(word) for word in example.view.question.split())
        total = (start + sum(addends)) % 5
        assert example.view.answers[example.label] == str(total)
        assert example.view.answers[1 - example.label] != str(total)
        for statement, grade in zip(example.view.statements, example.steps, strict=True):
            left, result = statement.text.split("=")
            assert (sum(map(int, left.split("+"))) % 5 == int(result)) == (grade == 1.0)
        assert example.steps.count(0.0) == 1


def test_pairs_are_read_from_a_file(tmp_path):
    rows = [
        {"question": "Who?", "chosen": "Ann.", "rejected": "Bob.", "margin": 2, "group": "g", "source": "web"},
        {"prompt": "What?", "chosen": "This.", "rejected": "That.\nOr not."},
        *({"prompt": f"p{i}", "chosen": "yes", "rejected": "no"} for i in range(20)),
    ]
    (tmp_path / "pairs.jsonl").write_text("".join(json.dumps(row) + "\n" for row in rows))
    data = preferences(path=str(tmp_path / "pairs.jsonl"), held_out=0.25)
    data.check()
    by_question = {example.view.question: example for example in (*data.train, *data.held_out)}
    assert (len(data.train), len(data.held_out)) == (16, 6)  # a quarter of 22 groups, rounded
    who = by_question["Who?"]
    assert (who.view.answers[who.label], who.margin, who.cluster) == ("Ann.", 2.0, "g")
    assert who.view.fields == {"source": "web"}
    assert 0 < sum(example.label for example in by_question.values()) < 22  # the order is drawn


def test_the_first_group_is_numbered_zero_and_texts_may_hold_line_separators(tmp_path):
    rows = [{"question": name, "chosen": "a\u2028b", "rejected": "c", "group": 0} for name in ("first", "second")]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps(row, ensure_ascii=False) for row in rows), encoding="utf-8")
    assert [example.cluster for example in read_pairs(path)] == ["0", "0"]


@pytest.mark.parametrize("line", ['{"margin": ' + "9" * 5001 + "}", "[" * 100_000])
def test_json_that_python_cannot_read_is_a_fault_of_its_line(tmp_path, line):
    path = tmp_path / "pairs.jsonl"
    path.write_text(line)
    with pytest.raises(SourceError, match=r"pairs\.jsonl:1:1: cannot be read"):
        read_pairs(path)


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        ({"id": "a", "question": "q2"}, "the id 'a' came before"),
        ({"question": "q", "group": 2}, "this prompt stood in group '1' before, and stands in '2' here"),
    ],
)
def test_pairs_that_cannot_be_told_apart_or_leak_are_faults(tmp_path, second, fault):
    rows = [{"id": "a", "question": "q", "group": 1}, second]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(json.dumps({"chosen": "yes", "rejected": "no", **row}) for row in rows))
    with pytest.raises(SourceError, match=f"pairs.jsonl:2:1: {fault}"):
        read_pairs(path)


def test_one_question_about_two_passages_is_two_prompts(tmp_path):
    path = tmp_path / "pairs.jsonl"
    rows = [{"question": "Sum it up.", "passage": text, "group": text} for text in ("first", "second")]
    path.write_text("\n".join(json.dumps({"chosen": "yes", "rejected": "no", **row}) for row in rows))
    assert [example.cluster for example in read_pairs(path)] == ["first", "second"]


def test_faults_of_a_file_of_pairs_are_told_with_their_lines(tmp_path):
    lines = [
        '{"question": "Who?", "chosen": "Ann."}',
        '{"question": "Who?", "chosen": "Ann.", "rejected": "Ann."}',
        "{nonsense",
        '{"question": "Who?", "chosen": "Ann.", "rejected": "Bob.", "margin": -1}',
        "[]",
    ]
    path = tmp_path / "pairs.jsonl"
    path.write_text("\n".join(lines))
    with pytest.raises(SourceError) as error:
        preferences(path=str(path))
    assert [(fault.line, fault.what.split(":")[0]) for fault in error.value.faults] == [
        (1, "'rejected' must be a text, not None"),
        (2, "'chosen' and 'rejected' are the same text"),
        (3, "no JSON"),
        (4, "'margin' says how much better the chosen reply is"),
        (5, "a pair is an object"),
    ]
    with pytest.raises(ConfigError, match="cannot be read as a file of preference pairs"):
        preferences(path=str(tmp_path / "none.jsonl"))


# -- learning


def test_the_first_step_of_bradley_terry_is_that_of_the_objective():
    """A head of zeros: the loss is log 2, and the gradient moves the head alone, by half the difference of what it
    reads."""
    trainer = BradleyTerry(batch=2).build(start(of="answer"), seed=0)
    trainer.begin([pair("a", "g1 g2", "g3"), pair("b", "g4", "g5", label=1)])
    metrics = trainer.step(0)
    assert metrics["loss"] == pytest.approx(math.log(2))
    assert metrics["accuracy"] == 0.5


def test_margin_smoothing_and_centring_reach_the_loss():
    examples = [pair("a", "g1", "g3", margin=2.0)]
    losses = {}
    for name, options in {
        "margin": {"margin": 0.5},
        "smoothing": {"smoothing": 0.2},
        "both": {"margin": 0.5, "smoothing": 0.2},
    }.items():
        trainer = BradleyTerry(**options).build(start(of="answer"), seed=0)
        trainer.begin(examples)
        losses[name] = trainer.step(0)["loss"]
    # without a lead: -log sigmoid(-1), log 2, and the mixture of -log sigmoid(-1) and -log sigmoid(1)
    assert losses["margin"] == pytest.approx(1.3132617)
    assert losses["smoothing"] == pytest.approx(math.log(2))
    assert losses["both"] == pytest.approx(0.8 * 1.3132617 + 0.2 * 0.3132617)


@pytest.mark.parametrize("micro_batch", [10_000, 12])
def test_the_size_of_a_forward_pass_changes_nothing(micro_batch):
    learner = OptimizerConfig(lr=1e-2, micro_batch=micro_batch)
    trainer = BradleyTerry(batch=8, learner=learner, center=0.1).build(start(of="answer"), seed=0)
    trainer.begin([pair(f"k{i}", f"g{i % 5} g{i % 3}", "g5", label=i % 2) for i in range(8)])
    losses = [trainer.step(number)["loss"] for number in range(3)]
    whole = BradleyTerry(batch=8, learner=OptimizerConfig(lr=1e-2), center=0.1).build(start(of="answer"), seed=0)
    whole.begin([pair(f"k{i}", f"g{i % 5} g{i % 3}", "g5", label=i % 2) for i in range(8)])
    assert losses == pytest.approx([whole.step(number)["loss"] for number in range(3)], abs=1e-5)


def test_every_example_is_seen_once_before_any_is_seen_again():
    trainer = BradleyTerry(batch=3).build(start(of="answer"), seed=0)
    trainer.begin([pair(f"k{i}", "g1", "g2") for i in range(7)])
    drawn = [place for number in range(7) for place in trainer._drawn(number)]
    assert [sorted(drawn[begin : begin + 7]) for begin in (0, 7, 14)] == [list(range(7))] * 3


def test_right_replies_get_the_better_scores_and_single_ones_log_odds():
    """Each word is always right or always wrong; with pointwise bce the score's sign says which."""
    examples = [pair(f"k{i}", f"g{i % 3}", f"g{3 + i % 3}", label=i % 2) for i in range(30)]
    for method in (BradleyTerry, Pointwise):
        trainer = method(batch=30, learner=OptimizerConfig(lr=2e-2)).build(start(of="answer"), seed=0)
        trainer.begin(examples)
        for number in range(30):
            trainer.step(number)
        judge = trainer.judge()
        assert measure(judge, examples).accuracy.value == 1.0
    scores = [judge.judge([example.view])[0].scores for example in examples]
    assert all(each[e.label] > 0 > each[1 - e.label] for each, e in zip(scores, examples, strict=True))


def test_grades_of_statements_are_what_mse_aims_at():
    examples = [stated(f"k{i}", ["g1"], ["g2"], 0, steps=(0.9, 0.3)) for i in range(4)]
    trainer = Pointwise(loss="mse", batch=4, learner=OptimizerConfig(lr=2e-2)).build(start(), seed=0)
    trainer.begin(examples)
    for number in range(80):
        trainer.step(number)
    (verdict,) = trainer.judge().judge([examples[0].view])
    assert verdict.scores == pytest.approx((0.9, 0.3), abs=0.05)


def test_steps_learn_from_their_own_labels_or_else_from_their_answers():
    graded = stated("k", ["g1", "g2"], ["g3", "g4"], 0, steps=(1.0, 1.0, 0.0, 1.0))
    trainer = Process().build(start("process-reward"), seed=0)
    assert trainer.item(graded, trainer._rows(graded.view)).targets == (1.0, 0.0, 1.0, 1.0)  # by answer, then by step
    plain = stated("k", ["g1", "g2"], ["g3", "g4"], 1)
    assert trainer.item(plain, trainer._rows(plain.view)).targets == (0.0, 0.0, 1.0, 1.0)


def test_lines_are_labelled_line_by_line():
    example = stated("k", ["g1\ng2"], ["g3\n\ng4"], 0, steps=(1.0, 0.0, 0.5, 1.0))
    trainer = Process().build(start("process-reward", step="line"), seed=0)
    assert trainer.item(example, trainer._rows(example.view)).targets == (1.0, 0.0, 0.5, 1.0)
    short = stated("k", ["g1\ng2"], ["g3"], 0, steps=(1.0, 0.0))
    with pytest.raises(ConfigError, match="'k' has 2 labels for 3 steps"):
        trainer.begin([short])


@pytest.mark.parametrize("binding", ["full", "adapter"])
def test_a_stopped_training_goes_on_bit_for_bit(binding, tmp_path):
    examples = [pair(f"k{i}", f"g{i % 3}", f"g{3 + i % 3}", label=i % 2) for i in range(20)]
    config = BradleyTerry(batch=8, binding=binding, learner=OptimizerConfig(lr=1e-2))

    def trained(first, last, state=None):
        trainer = config.build(start(of="answer"), seed=5)
        if state is not None:
            trainer.load_state_dict(torch.load(state, weights_only=True))
        trainer.begin(examples)
        for number in range(first, last):
            trainer.step(number)
        return trainer

    straight = trained(0, 6)
    torch.save(trained(0, 3).state_dict(), tmp_path / "state.pt")
    assert trained(3, 6, tmp_path / "state.pt").judge().name == straight.judge().name


def test_the_same_seed_gives_the_same_instrument_and_draws_nothing_global():
    state = torch.random.get_rng_state()
    names = []
    for seed in (0, 0, 1):
        trainer = BradleyTerry(batch=4).build(start(of="answer"), seed=seed)
        trainer.begin([pair(f"k{i}", f"g{i % 3}", f"g{3 + i % 3}") for i in range(10)])
        trainer.step(0)
        trainer.step(1)
        names.append(trainer.judge().name)
    assert names[0] == names[1] != names[2]
    assert torch.equal(state, torch.random.get_rng_state())


def test_a_judge_that_was_given_out_does_not_change_with_later_steps():
    trainer = BradleyTerry(batch=2).build(start(of="answer"), seed=0)
    trainer.begin([pair("a", "g1", "g2"), pair("b", "g1", "g3")])
    trainer.step(0)
    judge = trainer.judge()
    before = judge.judge([pair("a", "g1", "g2").view])[0].scores
    for number in range(1, 5):
        trainer.step(number)
    assert judge.network.score([judge.network.encode("q0", "g1")]) == pytest.approx([before[0]])


def test_a_lora_trains_the_adapter_and_the_head_only():
    trainer = BradleyTerry(batch=2, binding="adapter", lora={"r": 2}).build(start(of="answer"), seed=0)
    body = {n: w.clone() for n, w in trainer._judge.network.network.named_parameters() if not w.requires_grad}
    trainer.begin([pair("a", "g1", "g2"), pair("b", "g3", "g4", label=1)])
    for number in range(3):
        trainer.step(number)
    parameters = dict(trainer._judge.network.network.named_parameters())
    assert all(torch.equal(parameters[name], weight) for name, weight in body.items())
    trained = {name for name, weight in parameters.items() if weight.requires_grad}
    assert any("lora_A" in name for name in trained)
    assert any("score" in name for name in trained)


def test_a_saved_judge_is_trained_further(tmp_path):
    first = BradleyTerry(batch=2).build(start(of="answer"), seed=0)
    first.begin([pair("a", "g1", "g2"), pair("b", "g1", "g3")])
    first.step(0)
    first.judge().save(tmp_path / "judge")
    again = BradleyTerry(batch=2).build(Spec("reward-model", {"path": str(tmp_path / "judge")}), seed=1)
    assert again.judge().name == first.judge().name
    again.begin([pair("a", "g1", "g2"), pair("b", "g1", "g3")])
    again.step(0)
    assert again.judge().name != first.judge().name


def test_mistakes_are_told():
    trainer = BradleyTerry().build(start(of="answer"), seed=0)
    with pytest.raises(ConfigError, match="'a' cannot be learned from: 'x1' is not in the model's vocabulary"):
        trainer.begin([pair("a", "x1", "g2")])
    with pytest.raises(ConfigError, match="'a' takes 604 tokens and the model reads 512"):
        trainer.begin([pair("a", "g1 " * 601, "g2")])
    with pytest.raises(ConfigError, match="begins with either model=NAME or path=FOLDER"):
        BradleyTerry().build(Spec("reward-model", {}), seed=0)
    alone = Example(JudgeView("a", "q0", ("g1",), answers_argued=(0,)), 0, "a")
    with pytest.raises(ConfigError, match="'a' has no other reply to compare with"):
        trainer.begin([alone])
    graded = stated("k", ["g1"], ["g2"], 0, steps=(1.0,))
    with pytest.raises(ConfigError, match="1 grades for 2 statements"):
        Pointwise().build(start(), seed=0).begin([graded])


def test_a_loss_that_is_not_finite_stops_training():
    trainer = BradleyTerry(batch=1).build(start(of="answer"), seed=0)
    with torch.no_grad():
        trainer._judge.network.network.score.weight.fill_(math.inf)
    trainer.begin([pair("a", "g1", "g2")])
    with pytest.raises(NumericalError, match=r"loss of step 0 is nan: lower learner\.lr"):
        trainer.step(0)


def test_a_policy_of_ours_can_carry_the_head(tmp_path):
    model = tiny("q{0..1} g{0..5}", hidden=16, intermediate=32, layers=1, heads=2, seed=4)
    model.save(tmp_path / "policy")
    trainer = BradleyTerry(batch=1).build(
        Spec("reward-model", {"model": str(tmp_path / "policy"), "of": "answer"}), seed=0
    )
    body = trainer._judge.network.base.model.embed_tokens.weight
    assert torch.equal(body, model.network.model.embed_tokens.weight)


def test_the_methods_and_data_have_their_names():
    assert {"bradley-terry", "pointwise", "process"} <= METHODS.names().keys()
    assert {"preferences", "synthetic-preferences", "synthetic-steps"} <= DATA.names().keys()


@pytest.mark.parametrize("name", ["reward_model", "process_reward"])
def test_the_shipped_recipes_are_sound(name):
    assert load_judge_recipe(name).method.steps > 0


# -- the numbers


@pytest.mark.slow
def test_the_shipped_recipe_comes_within_two_points_of_the_best_rule():
    recipe = load_judge_recipe("reward_model", ["train.steps=250", "train.learner.total_steps=250"])
    data = DATA.build(recipe.data, seed=0)
    trainer = recipe.method.build(recipe.judge.spec, seed=0)
    assert measure(trainer.judge(), data.held_out).accuracy.value == 0.5
    trainer.begin(data.train)
    for number in range(recipe.method.steps):
        trainer.step(number)
    after = measure(trainer.judge(), data.held_out)
    assert after.decidable == 4000
    assert after.accuracy.value >= data.notes["bayes_accuracy"] - 0.02


@pytest.mark.slow
def test_steps_with_noisy_labels_teach_which_chain_is_right():
    recipe = load_judge_recipe(
        "process_reward", ["data.train=2000", "train.steps=120", "train.learner.total_steps=120"]
    )
    data = DATA.build(recipe.data, seed=0)
    trainer = recipe.method.build(recipe.judge.spec, seed=0)
    trainer.begin(data.train)
    for number in range(recipe.method.steps):
        trainer.step(number)
    assert measure(trainer.judge(), data.held_out).accuracy.value > 0.9


def test_a_trained_judge_rewards_and_picks(tmp_path):
    """The saved judge, named by its spec, rates candidates by their scores."""
    trainer = BradleyTerry(batch=30, learner=OptimizerConfig(lr=2e-2)).build(start(of="answer"), seed=0)
    trainer.begin([pair(f"k{i}", f"g{i % 3}", f"g{3 + i % 3}", label=i % 2) for i in range(30)])
    for number in range(30):
        trainer.step(number)
    trainer.judge().save(tmp_path / "judge")
    judge = JUDGES.build(f"reward-model:path={tmp_path / 'judge'}")
    good, bad = (JudgeView("k", "q0", (), [Statement("a", None, word)]) for word in ("g1", "g4"))
    scores = [verdict.scores[0] for verdict in judge.judge([good, bad])]
    assert scores[0] > scores[1]
