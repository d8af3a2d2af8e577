"""The page in Chromium: ids, scores, and answers equal Keras's, and no request leaves it."""

import os
import random
import shutil

import numpy as np
import pytest
from albert_tf_export.web import EXAMPLES, _installed, export_web

import albert_tf
from albert_tf.checkpoints import sentence_transformers
from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.cli import main
from albert_tf.pipelines import (
    FillMaskPipeline,
    QuestionAnsweringPipeline,
    TextClassificationPipeline,
)

pytestmark = pytest.mark.browser

LENGTHS = (8, 24)
HARD = [
    "A quiet delight from start to finish.",
    "Crème brûlée costs 12 euros, and the café is NEVER closed on a Sunday!",
    "  spaces \t inside,\n\n and around  ",
    "Ταξίδι στην Αθήνα; 東京への旅 🦕 ﬁne ①②③ ½ ｆｕｌｌ",
    "e\u0301a\u0308 İstanbul ẞ Straße ŉ 가각 \u1112\u1161\u11ab",
    "[CLS] written out [SEP] <pad> <unk> ▁ ``quotes'' – £5 €6",
    "A NUL inside\0 and at the end\0",
    "zero\u200bwidth \u200djoiner \ufeffmark \u0085next \x1cseparator nb\u00a0space",
    "1,234,567.89 20,000, 7,",
    "👩\u200d👩\u200d👧 🇩🇪 \ud800 lone",
    "noisy mess " * 40,
    "a" * 300,
]
# No "0,000": with these 200 pieces, "0" + "00" and "00" + "0" are a tie, which versions of
# SentencePiece break differently.
CONTEXT = (
    "In 1999, about 2,543 people came to see the “harbour lights” (of the ﬁne old Café). "
    "She sells fresh bread, coffee and cakes on the corner of the old square. 🦕 It is a warm, "
    "funny and clever story about two brothers and a boat, and the music stayed with me."
)
ANSWERED = "#result[aria-busy=false]"
ISOLATION = {
    "Cross-Origin-Opener-Policy": "same-origin",
    "Cross-Origin-Embedder-Policy": "require-corp",
}


@pytest.fixture(scope="module")
def packages():
    with _installed(None) as folder:
        yield folder


@pytest.fixture(scope="module")
def open_site(browser, serve_folder):
    """Returns a function that opens a site, and waits for the answer to its first example."""

    def open_page(folder, headers=ISOLATION, width=1000):
        page = browser.new_page(viewport={"width": width, "height": 900})
        address = serve_folder(folder, headers)
        page.requested = []
        page.on("request", lambda request: page.requested.append(request.url))
        page.goto(address)
        page.wait_for_selector(f"{ANSWERED}, .error", timeout=60_000)
        assert not page.query_selector(".error"), page.inner_text("main")
        assert all(each.startswith((address, "data:", "blob:")) for each in page.requested)
        return page

    return open_page


@pytest.fixture(scope="module")
def open_task(open_site, packages, make_model, tokenizer, tmp_path_factory):
    """Returns a function from a task to its model of random weights, and the page that runs it."""

    def make(task, fields=None, **options):
        model = make_model(task, **(fields or {}))
        folder = tmp_path_factory.mktemp(task)
        settings = {"lengths": LENGTHS, "quantize": "none", "check": False}
        export_web(model, tokenizer, folder, node_modules=packages, **settings, **options)
        return model, open_site(folder)

    return make


def call(page, name, *texts):
    """Runs a function of tasks.js on the page's model."""
    script = (
        "async ([name, texts]) => (await import('./tasks.js'))[name](globalThis.page, ...texts)"
    )
    return page.evaluate(
        f"async (given) => ({{...await ({script})(given), runs: null}})", [name, texts]
    )


def close_to(score):
    return pytest.approx(score, rel=1e-4, abs=1e-6)


@pytest.mark.parametrize("pairs", [False, True])
def test_the_first_example_is_answered_without_a_click(open_task, tokenizer, pairs):
    model, page = open_task("sequence-classification", pairs=pairs)
    texts = EXAMPLES["pairs" if pairs else "text-classification"][0]
    boxes = ("[name=text]", "[name=second]")[: len(texts)]
    assert [page.input_value(box) for box in boxes] == texts
    texts = tuple(texts) if pairs else texts[0]
    expected = TextClassificationPipeline(model, tokenizer)(texts, top_k=None, truncation=True)
    lengths = "(bars) => bars.map((bar) => bar.offsetWidth / bar.parentElement.offsetWidth)"
    rows = zip(
        page.locator(".row span").all_text_contents(),
        page.locator(".row data").all_text_contents(),
        page.locator(".bar div").evaluate_all(lengths),
        strict=True,
    )
    for (shown, score, length), wanted in zip(rows, expected, strict=False):
        assert (shown, score) == (wanted["label"], f"{wanted['score']:.3f}")
        assert length == pytest.approx(wanted["score"], abs=0.01)


def test_classes(open_task, tokenizer):
    """Draws texts whose pieces have equal sums of scores in another order, such as 9 99, 99 9."""
    model, page = open_task("sequence-classification")
    draw = random.Random(os.environ["ALBERT_TF_SEED"])
    ties = ["".join(draw.choices("09 abden", k=draw.randint(2, 14))) for _ in range(500)]
    all_ids = "(texts) => texts.map((each) => globalThis.page.tokenizer.ids(each))"
    expected = tokenizer(ties, add_special_tokens=False)["input_ids"]
    for text, *ids in zip(ties, page.evaluate(all_ids, ties), expected, strict=True):
        assert ids[0] == ids[1], text
    assert page.evaluate("globalThis.page.model.signatures.map((each) => each.length)") == [8, 24]
    classify = TextClassificationPipeline(model, tokenizer)
    for text in HARD:
        ids = tokenizer(text, add_special_tokens=False, split_special_tokens=True)["input_ids"]
        assert page.evaluate("(text) => globalThis.page.tokenizer.ids(text)", text) == ids, text
        expected = classify(text, top_k=None, truncation=True)
        found = call(page, "classify", text)["answers"]
        assert [each["text"] for each in found] == [each["label"] for each in expected]
        assert [each["score"] for each in found] == [close_to(each["score"]) for each in expected]


@pytest.mark.parametrize(
    ("task", "fields"),
    [
        ("several-labels", {}),
        ("regression", {"problem_type": "regression"}),
        ("sequence-classification", {"id2label": {0: "yes"}}),
    ],
)
def test_scores_that_are_no_distribution(open_task, tokenizer, task, fields):
    model, page = open_task(task, fields, pairs=True)
    text, second = "A quiet delight.", "noisy mess " * 40
    [*expected] = TextClassificationPipeline(model, tokenizer)(
        (text, second), top_k=None, truncation=True
    )
    found = call(page, "classify", text, second)["answers"]
    assert [each["text"] for each in found] == [each["label"] for each in expected]
    assert [each["score"] for each in found] == [close_to(each["score"]) for each in expected]


@pytest.mark.parametrize("task", ["question-answering", "answerability"])
def test_answers(open_task, tokenizer, task):
    model, page = open_task(task)
    ask = QuestionAnsweringPipeline(model, tokenizer)
    for question in ("Who sells bread?", "How many people came? " * 9):
        for context in (CONTEXT, "The boat."):
            expected = ask(question=question, context=context, top_k=5, max_seq_len=24)
            found = call(page, "answer", question, context)["answers"]
            for one, other in zip(found, expected, strict=True):
                names = ("start", "end")
                assert [one[name] for name in names] == [other[name] for name in names], question
                assert (one["text"], one["score"]) == (other["answer"], close_to(other["score"]))


def test_an_answer_is_highlighted(open_task, tokenizer):
    model, page = open_task("question-answering")
    page.fill("[name=text]", "Who sells bread?")
    page.fill("[name=second]", CONTEXT)
    page.click("[type=submit]")
    page.wait_for_selector(ANSWERED)
    expected = QuestionAnsweringPipeline(model, tokenizer)(
        question="Who sells bread?", context=CONTEXT, max_seq_len=24, top_k=5
    )
    assert page.inner_text("mark") == expected[0]["answer"]
    assert page.text_content(".passage") == CONTEXT
    assert "ids_24" in page.inner_text("#time")


@pytest.mark.parametrize("pooling", ["mean", "cls"])
def test_search(open_site, packages, make_model, tokenizer, tmp_path, pooling):
    """A sentence-transformers folder determines the pooling and the maximum length."""
    encoder = make_model("encoder")
    encoder.save_pretrained(tmp_path / "model")
    tokenizer.save_pretrained(tmp_path / "model")
    modules = SentenceEmbedding(pooling, normalize=True, max_length=16)
    sentence_transformers.write(tmp_path / "model", modules, encoder.config.hidden_size)
    model = albert_tf.AlbertModel.from_pretrained(tmp_path / "model")
    settings = {"lengths": LENGTHS, "quantize": "none", "check": False}
    export_web(model, tokenizer, tmp_path / "site", node_modules=packages, **settings)
    page = open_site(tmp_path / "site")
    embed = albert_tf.pipeline("feature-extraction", model, tokenizer, return_tensors=True)
    query, lines = EXAMPLES["feature-extraction"][0]
    assert page.inner_text(".row.best span") in lines.split("\n")
    texts = [" ".join(text.split()) for text in HARD if "\0" not in text]
    vectors = np.stack(embed([query, *texts]))
    cosines = vectors[1:] @ vectors[0]
    best = call(page, "search", query, "\n".join(texts))["answers"]
    wanted = np.argsort(-cosines, kind="stable")[:5]
    assert [each["text"] for each in best] == [texts[index] for index in wanted]
    assert [each["score"] for each in best] == [close_to(cosines[index]) for index in wanted]


def test_masks(open_task, tokenizer):
    model, page = open_task("masked-lm")
    fill = FillMaskPipeline(model, tokenizer, top_k=5)
    texts = [
        "The [MASK] was a delight.",
        "[MASK]",
        "A [MASK]. [MASK] and (the [MASK]) - [MASK] [MASK]",
        "noisy mess " * 20 + "[MASK] and a boat, " + "fair prices " * 20 + "[MASK]!",
    ]
    for text in texts:
        expected = fill(text)
        expected = expected if isinstance(expected[0], list) else [expected]
        found = call(page, "fillMask", text)["answers"]
        for one, other in zip(found, expected, strict=True):
            assert [each["id"] for each in one] == [each["token"] for each in other], text
            assert [each["score"] for each in one] == [close_to(each["score"]) for each in other]
            assert [each["text"] for each in one] == [each["token_str"] for each in other]
        if len(found) == 1:
            sequences = [each["sequence"] for each in found[0]]
            assert sequences == [each["sequence"] for each in expected[0]]
    page.fill("[name=text]", "No mask.")
    page.click("[type=submit]")
    assert "must contain [MASK]" in page.wait_for_selector("#result .error").inner_text()


@pytest.mark.parametrize("headers", [ISOLATION, {}], ids=["isolated", "plain"])
def test_the_model_in_the_box(small_site, open_site, headers):
    """By the command line, in 8 bits; the words of Keras, on a phone's width."""
    page = open_site(small_site, headers, width=390)
    (text,) = EXAMPLES["fill-mask"][0]
    assert page.input_value("[name=text]") == text
    (best,) = albert_tf.pipeline("fill-mask", "small", top_k=1)(text)
    assert page.inner_text(".row.best span") == best["sequence"]
    (in_8_bits,) = albert_tf.pipeline("fill-mask", small_site / "model/model.tflite", top_k=1)(text)
    score = float(page.get_attribute(".row.best data", "value"))
    assert np.log(score) == pytest.approx(np.log(in_8_bits["score"]), abs=0.05)
    host = page.inner_text("#host")
    assert ("1 thread (more require" in host) == (not headers)
    assert page.evaluate("document.documentElement.scrollWidth") == 390


@pytest.fixture(scope="module")
def small_site(packages, tmp_path_factory):
    site = tmp_path_factory.mktemp("sites") / "site"
    arguments = ["--model", "small", "--output", site, "--lengths", "16,64"]
    arguments += ["--node-modules", packages]
    assert main(["export", "web", *map(str, arguments)]) == 0
    return site


@pytest.mark.parametrize("name", ["model/settings.json", "model/spiece.model", "tasks.js"])
def test_a_file_that_is_missing(name, browser, serve_folder, small_site, tmp_path):
    shutil.copytree(small_site, tmp_path / "site")
    (tmp_path / "site" / name).unlink()
    page = browser.new_page()
    page.goto(serve_folder(tmp_path / "site", {}))
    message = page.wait_for_selector("#hint.error").inner_text()
    assert "could not be loaded" in message and name in message
