"""A SavedModel that takes strings, answered by the C program and by Python."""

import io

import numpy as np
import pytest
import sentencepiece
import tensorflow as tf
import tensorflow_text

V, H, C = 61, 5, 3
TEXTS = [
    "a quiet delight",
    "",
    "Crème brûlée costs 12 euros and the café is never closed on a Sunday 🦕",
    "  spaces  inside and around  ",
]
SENTENCES = [
    "the quiet harbour lights delight the people",
    "a noisy mess of crème and brûlée costs 12 euros",
    "never closed on a sunday and never open on a monday",
]


class Scorer(tf.Module):
    """Adds up a learned row for each piece of a text: a text operator, a variable, a product."""

    def __init__(self, vocabulary: bytes):
        super().__init__()
        generator = np.random.default_rng(5)
        self.tokenizer = tensorflow_text.FastSentencepieceTokenizer(vocabulary)
        self.table = tf.Variable(generator.normal(size=(V, H)).astype("float32"))
        self.kernel = tf.Variable(generator.normal(size=(H, C)).astype("float32"))

    @tf.function(input_signature=[tf.TensorSpec([None], tf.string, name="text")])
    def serve(self, text):
        pieces = self.tokenizer.tokenize(text)
        hidden = tf.reduce_sum(tf.gather(self.table, pieces), axis=1)
        return {"logits": hidden @ self.kernel, "length": tf.cast(pieces.row_lengths(), tf.float32)}


@pytest.fixture(scope="module")
def saved_model(tmp_path_factory):
    vocabulary = io.BytesIO()
    sentencepiece.SentencePieceTrainer.train(
        sentence_iterator=iter(SENTENCES),
        model_writer=vocabulary,
        vocab_size=V,
        hard_vocab_limit=False,
        minloglevel=2,
    )
    folder = tmp_path_factory.mktemp("model") / "1"
    scorer = Scorer(vocabulary.getvalue())
    tf.saved_model.save(scorer, folder, signatures=scorer.serve)
    return folder


def test_gives_what_python_gives(serve_with_c, signature_tensors, saved_model):
    inputs, outputs = signature_tensors(saved_model)
    answer = serve_with_c(
        saved_model, inputs["text"], outputs["logits"], outputs["length"], texts=TEXTS
    )
    assert answer.returncode == 0, answer.stderr.decode()
    rows = np.loadtxt(io.BytesIO(answer.stdout), ndmin=2)
    expected = tf.saved_model.load(saved_model).signatures["serving_default"](tf.constant(TEXTS))
    assert rows.shape == (len(TEXTS), C + 1)
    np.testing.assert_allclose(rows[:, :C], expected["logits"], rtol=0, atol=1e-5)
    np.testing.assert_array_equal(rows[:, C], expected["length"])
    assert len(set(rows[:, C])) == len(TEXTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"library": "nowhere.so"}, "nowhere.so: "),
        ({"folder": "nowhere"}, "nowhere: Could not find SavedModel"),
        ({"source": "absent:0"}, "must have the tensor that is asked for. Received: absent:0"),
        ({"texts": []}, "must hold at least one line"),
    ],
)
def test_says_what_is_wrong(serve_with_c, signature_tensors, saved_model, change, message):
    inputs, outputs = signature_tensors(saved_model)
    call = {"folder": saved_model, "source": inputs["text"], "texts": TEXTS} | change
    answer = serve_with_c(call.pop("folder"), call.pop("source"), outputs["logits"], **call)
    assert answer.returncode == 1
    assert message in answer.stderr.decode()
