import numpy as np
import pytest
from scipy.special import expit

from albert_tf.data.options import LabelledData
from albert_tf.data.tasks.answers import QuestionAnswering
from albert_tf.data.tasks.outputs import model_outputs
from albert_tf.data.tasks.questions import Question
from albert_tf.errors import UserError
from albert_tf.text.answers import BestSpans, best_spans, context_positions, question_windows

QUESTION = "who sat on a mat"
CONTEXT = "The CAT sat on a mat, and 😀 the dog barked at (París)."
LONG = "ada lives in new york city and the old dog barked at the moon over france. " * 4
BOTH = {"question": "a", "context": LONG}
KINDS = ["question-answering", "answerability"]


def outputs(model, tokenizer, kind, question, context):
    encoding = tokenizer(question, context, return_tensors="np")
    features = {"input_ids": encoding.input_ids, "token_type_ids": encoding.token_type_ids}
    found = {name: np.asarray(values)[0] for name, values in model(kind)(features).items()}
    return found, np.array([each == 1 for each in encoding.sequence_ids()])


@pytest.mark.parametrize("aligned", [True, False])
@pytest.mark.parametrize("kind", KINDS)
def test_answers_are_what_the_context_says(pipe, kind, aligned):
    ask = pipe(kind, top_k=7, align_to_words=aligned)
    for context in (CONTEXT, LONG, "  " + CONTEXT.replace(" ", "\n\t ")):
        found = ask(question=QUESTION, context=context)
        assert len(found) > 1
        assert all(context[each["start"] : each["end"]] == each["answer"] for each in found)
        assert all(each["answer"].strip() == each["answer"] != "" for each in found)
        scores = [each["score"] for each in found]
        assert scores == sorted(scores, reverse=True)
        assert 0 < scores[-1] <= scores[0] <= 1


@pytest.mark.parametrize("kind", KINDS)
def test_the_best_span(pipe, model, tokenizer, kind):
    found, possible = outputs(model, tokenizer, kind, QUESTION, CONTEXT)
    offsets = tokenizer(QUESTION, CONTEXT, return_offsets_mapping=True).offset_mapping
    spans = [
        (CONTEXT[offsets[span.start][0] : offsets[span.end][1]].strip(), span.score)
        for span in best_spans(found, possible, 5, 15).spans
    ]
    # A token without characters is no answer.
    best, score = next((text, score) for text, score in spans if text)
    answer = pipe(kind, align_to_words=False)(question=QUESTION, context=CONTEXT)
    assert answer["answer"] == best
    assert answer["score"] == pytest.approx(score, abs=1e-5)


def test_no_answer_is_ranked_by_its_probability(pipe, model, tokenizer):
    found, possible = outputs(model, tokenizer, "question-answering", QUESTION, CONTEXT)
    null = best_spans(found, possible, 1, 15).null
    ask = pipe("question-answering", handle_impossible_answer=True, top_k=400)
    answers = ask(question=QUESTION, context=CONTEXT)
    (none,) = [each for each in answers if not each["answer"]]
    assert none == {"score": pytest.approx(null, abs=1e-5), "start": 0, "end": 0, "answer": ""}
    assert answers == sorted(answers, key=lambda each: -each["score"])


@pytest.fixture
def ask_with_logits(pipe, model, monkeypatch):
    """Returns a function that asks the SQuAD 2.0 head with these logits of no answer."""
    found = model("answerability")
    predict = found.predict_on_batch

    def ask(logits, context, **options):
        left = iter(logits)
        monkeypatch.setattr(
            found,
            "predict_on_batch",
            lambda features: {
                **predict(features),
                "cls_logits": np.array([next(left) for _ in features["input_ids"]]),
            },
        )
        return pipe("answerability")(question=QUESTION, context=context, **options)

    return ask


@pytest.mark.parametrize("logit", [-50.0, 50.0])
def test_the_head_decides_whether_there_is_an_answer(ask_with_logits, logit):
    best = ask_with_logits([logit], CONTEXT)
    assert best["answer"] != ""
    none = {"score": pytest.approx(expit(logit)), "start": 0, "end": 0, "answer": ""}
    asked = ask_with_logits([logit], CONTEXT, handle_impossible_answer=True, top_k=3)
    assert asked[:2] == [none, best] if logit > 0 else asked[0] == best
    assert ask_with_logits([logit], CONTEXT, handle_impossible_answer=True) == asked[0]


def test_the_least_sure_window_decides_that_there_is_no_answer(ask_with_logits):
    logits = [3.0, -3.0, *[3.0] * 30]
    options = {"handle_impossible_answer": True, "doc_stride": 4}
    assert ask_with_logits(logits, LONG, **options)["answer"] != ""
    assert ask_with_logits([3.0] * 32, LONG, **options)["answer"] == ""


@pytest.mark.parametrize("kind", KINDS)
def test_evaluate_scores_the_same_answers(pipe, model, tokenizer, kind):
    contexts = (CONTEXT, LONG, LONG[9:] + CONTEXT, "A cat.", "(mat) \u200b“mat”, mat! " * 9)
    questions = [
        Question(f"{asked} {context}", asked, context)
        for context in contexts
        for asked in (QUESTION, "where", "is it 😀 or the moon?")
    ]
    squad, config = QuestionAnswering(LabelledData(task="squad", data=".")), model(kind).config
    rows = squad.encode(questions, tokenizer, config, 32)
    decoded = squad.predictions(questions, rows, model_outputs(rows, model(kind)), config)
    asked = [{"question": each.question, "context": each.context} for each in questions]
    for answers, expected in zip(decoded, pipe(kind, max_seq_len=32)(asked), strict=True):
        found = answers.deployed.best[0]
        assert found["answer"] == expected["answer"]
        assert found["score"] == pytest.approx(expected["score"], rel=1e-4)
    assert any(each.deployed.best[0] != each.official.best[0] for each in decoded)


@pytest.mark.parametrize("kind", KINDS)
def test_no_span_that_is_short_enough(pipe, kind, monkeypatch):
    found = BestSpans([], 0.25, 0.0)
    monkeypatch.setattr("albert_tf.text.answers.best_spans", lambda *_: found)
    answer = pipe(kind)(question=QUESTION, context=CONTEXT)
    assert answer == {"score": 0.0, "start": 0, "end": 0, "answer": ""}


def test_the_best_answer_of_all_windows(pipe, model, tokenizer):
    best = []
    for row in question_windows(tokenizer, ["who sat"], [LONG], 32, 5)[0]:
        features = {"input_ids": [row.input_ids], "token_type_ids": [row.token_type_ids]}
        found = model("question-answering")({k: np.array(v) for k, v in features.items()})
        logits = {name: np.asarray(value)[0] for name, value in found.items()}
        (span,) = best_spans(logits, context_positions(row).possible, 1, 15).spans
        offsets = row.offset_mapping
        best.append((span.score, offsets[span.start][0], offsets[span.end][1]))
    assert len(best) > 2
    score, start, end = max(best)
    ask = pipe("question-answering", align_to_words=False)
    found = ask(question="who sat", context=LONG, doc_stride=5)
    assert (found["start"], found["end"]) == (start, end)
    assert found["score"] == pytest.approx(score, abs=1e-5)


def test_forms_of_calls(pipe):
    ask = pipe("question-answering", doc_stride=4)
    one = ask(question=QUESTION, context=CONTEXT)
    two = ask(question="who barked", context=CONTEXT)
    dicts = [{"question": question, "context": CONTEXT} for question in (QUESTION, "who barked")]

    def same(found, expected):
        near = [{**each, "score": pytest.approx(each["score"], abs=1e-5)} for each in expected]
        assert found == near

    same([ask(dicts[0])], [one])
    same([ask((QUESTION, CONTEXT))], [one])
    same(ask(dicts), [one, two])
    same(ask(dicts[:1]), [one])
    same(list(ask(each for each in dicts)), [one, two])
    same(ask(question=[QUESTION, "who barked"], context=CONTEXT), [one, two])
    same(ask(question=[QUESTION, "who barked"], context=[CONTEXT, CONTEXT]), [one, two])
    same(ask(question=[QUESTION], context=CONTEXT), [one])
    assert isinstance(ask(dicts[0], top_k=2), list)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        ({}, UserError, "question is missing"),
        ({"question": "who"}, UserError, "context is missing"),
        ({"question": "a", "context": " \n"}, UserError, "A context must not be empty"),
        ({"question": 3, "context": "a"}, TypeError, "A question must be a str. Received: 3"),
        ({"inputs": "who sat"}, TypeError, "'question' and 'context'. Received: 'who sat'"),
        ({"inputs": ("a", "b"), "question": "c"}, TypeError, "not both"),
        ({"question": ["a", "b"], "context": ["c"]}, UserError, "2 questions and 1 contexts"),
        ({**BOTH, "max_seq_len": 33}, UserError, "max_seq_len must be between 4 and 32"),
        ({**BOTH, "doc_stride": 31}, UserError, "stride must be .* less than .*stride=31"),
    ],
)
def test_mistakes(pipe, call, error, message):
    with pytest.raises(error, match=message):
        pipe("question-answering")(**call)


def test_a_long_question_is_cut(pipe):
    ask = pipe("question-answering", max_question_len=3)
    found = ask(question="who sat on a mat in paris", context=CONTEXT)
    assert found == ask(question="who sat on", context=CONTEXT)


@pytest.mark.parametrize("kind", KINDS)
def test_the_threshold_of_a_fine_tuned_model(pipe, model, kind, monkeypatch):
    """The threshold decides, and no answer is possible without being asked for."""
    found = model(kind)
    ask = pipe(kind)
    best = ask(question=QUESTION, context=CONTEXT)
    assert best["answer"]
    for threshold, expected in ((-1e9, ""), (1e9, best["answer"])):
        monkeypatch.setattr(found, "config", found.config.replace(thresholds=(threshold,)))
        assert ask(question=QUESTION, context=CONTEXT)["answer"] == expected
        two = ask(question=QUESTION, context=CONTEXT, top_k=200)
        assert two[0]["answer"] == expected and "" in [each["answer"] for each in two]
        asked = {"question": QUESTION, "context": CONTEXT, "handle_impossible_answer": False}
        assert ask(**asked) == best


def test_odds_are_the_official_difference(pipe, model, tokenizer, monkeypatch):
    found, possible = outputs(model, tokenizer, "question-answering", QUESTION, CONTEXT)
    start, end, *_ = best_spans(found, possible, 1, 15).spans[0]
    starts, ends = found["start_logits"], found["end_logits"]
    odds = float(starts[0] + ends[0] - starts[start] - ends[end])
    answerer, ask = model("question-answering"), pipe("question-answering")
    for threshold, is_none in ((odds - 1e-3, True), (odds + 1e-3, False)):
        monkeypatch.setattr(answerer, "config", answerer.config.replace(thresholds=(threshold,)))
        assert (ask(question=QUESTION, context=CONTEXT)["answer"] == "") == is_none
