import numpy as np
import pytest
from albert_tf_export.samples import sample


@pytest.fixture(scope="module")
def samples(classifier, tokenizer):
    return sample(classifier, tokenizer, 24, pairs=False)


def test_samples_are_varied(samples, classifier):
    inputs, expected, pieces, *_ = samples["ids"]
    assert pieces == [len(row["input_ids"]) for row in inputs]
    assert min(pieces) == 2  # the empty text
    assert max(pieces) == 24  # the truncated text
    assert len(set(pieces)) > 4
    assert {row["logits"].shape for row in expected} == {(3,)}
    assert len({row["logits"].tobytes() for row in expected}) == len(inputs)
    assert any("\0" in row["text"] for row in samples["text"].inputs)
    assert samples["text"].expected is samples["ids"].expected
    assert "masked" not in samples


def test_expected_is_what_keras_gives(samples, classifier):
    for row, expected in zip(samples["ids"].inputs, samples["ids"].expected, strict=True):
        ids, types = (np.array([row[name]]) for name in ("input_ids", "token_type_ids"))
        logits = classifier({"input_ids": ids, "token_type_ids": types})["logits"][0]
        np.testing.assert_array_equal(expected["logits"], logits)
        assert expected["label"] == classifier.config.labels[np.argmax(logits)].encode()


def test_samples_of_pairs(classifier, tokenizer):
    samples = sample(classifier, tokenizer, 24, pairs=True)
    assert all(1 in row["token_type_ids"] for row in samples["ids"].inputs)
    assert all(set(row) == {"text", "text_pair"} for row in samples["text"].inputs)


def test_samples_of_choices(make_model, tokenizer):
    model = make_model("multiple-choice")
    samples = sample(model, tokenizer, 24, pairs=True, choices=5)
    for row, expected in zip(samples["text"].inputs, samples["ids"].expected, strict=True):
        assert len(row["text"]) == len(set(row["text_pair"])) == len(expected["logits"]) == 5
    row = samples["ids"].inputs[0]
    alone = [
        model({name: np.array([[values[choice]]]) for name, values in row.items()})["logits"]
        for choice in range(5)
    ]
    expected = samples["ids"].expected[0]
    np.testing.assert_allclose(expected["logits"], np.ravel(alone), rtol=0, atol=2e-6)


def test_expected_outputs_include_the_pieces_of_a_text(make_model, tokenizer):
    samples = sample(make_model("token-classification"), tokenizer, 24, pairs=False)
    for row, ids in zip(samples["text"].expected, samples["ids"].inputs, strict=True):
        assert row["input_ids"].tolist() == ids["input_ids"]
        assert row["attention_mask"].tolist() == [1] * len(ids["input_ids"])
        assert row["logits"].shape == (len(ids["input_ids"]), 3)


@pytest.mark.parametrize(
    ("task", "name"), [("masked-lm", "logits"), ("pretraining", "prediction_logits")]
)
def test_masked_samples_select_rows_of_all_logits(task, name, make_model, tokenizer):
    model = make_model(task)
    samples = sample(model, tokenizer, 24, pairs=False, predictions=4)
    masked, whole = samples["masked"], samples["ids"]
    for row, part, full in zip(masked.inputs, masked.expected, whole.expected, strict=True):
        positions = row["masked_lm_positions"]
        assert len(positions) == 4
        assert max(positions) < len(row["input_ids"])
        np.testing.assert_array_equal(part[name], full[name][positions])
    row = {key: np.array([value]) for key, value in masked.inputs[0].items()}
    np.testing.assert_allclose(model(row)[name][0], masked.expected[0][name], rtol=0, atol=1e-5)


def test_the_width_of_a_beam_does_not_depend_on_the_text(make_model, tokenizer):
    """Keeps the width for two empty texts, which are three pieces."""
    samples = sample(make_model("answerability"), tokenizer, 24, pairs=True)
    assert {row["start_top_index"].shape for row in samples["ids"].expected} == {(5,)}
    assert {row["end_top_index"].shape for row in samples["ids"].expected} == {(25,)}
