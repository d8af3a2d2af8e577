"""The page's folder; test_browser.py runs it."""

import functools
import json
import re
import shutil
import subprocess
import sys
import zlib

import numpy as np
import pytest
from albert_tf_export import Report, web
from albert_tf_export.words import of_categories
from sentencepiece import sentencepiece_model_pb2

from albert_tf.checkpoints.sentence_transformers import SentenceEmbedding
from albert_tf.cli import main
from albert_tf.errors import UserError
from albert_tf.files import check_own
from albert_tf.models import AlbertForSimilarity
from albert_tf.outputs import WEB_PAGE
from albert_tf.text.answers import INVISIBLE, best_spans, trimmed
from albert_tf.text.tokenizer import AlbertTokenizer

LOCK = json.loads((web.PAGE / web.LOCK).read_text())["packages"]


@pytest.fixture
def node_modules(tmp_path):
    """Returns a folder with stand-ins for the packages."""
    folder = tmp_path / "node_modules"
    for source in [*web.FILES, f"{web.SENTENCEPIECE}/dist/index.js"]:
        (folder / source).parent.mkdir(parents=True, exist_ok=True)
        (folder / source).write_text(f"// {{{source}}}")
    for name in (web.LITERT, "@litertjs/wasm-utils", web.SENTENCEPIECE):
        version = LOCK[f"node_modules/{name}"]["version"]
        content = {"version": version, "license": "Apache-2.0", "repository": {"url": "git"}}
        (folder / name / "package.json").write_text(json.dumps(content))
    return folder


@pytest.fixture
def exported(monkeypatch):
    """Replaces the export of the .tflite file; returns its arguments."""
    given = {}

    def export_tflite(model, tokenizer, path, **options):
        given.update(options)
        path.write_bytes(b"TFL3")
        return Report.of(path, path, {})

    monkeypatch.setattr(web, "export_tflite", export_tflite)
    return given


def test_the_page_finds_its_files(exported, classifier, tokenizer, node_modules, tmp_path):
    site = tmp_path / "site"
    found = web.export_web(classifier, tokenizer, site, name="stars", node_modules=node_modules)
    assert (found.path, found.size) == (site, 4)
    check_own(site, WEB_PAGE)
    page = "".join(file.read_text() for file in [*site.glob("*.js"), site / "index.html"])
    named = re.findall(r'(?:href|src)="([^":]+)"|"\./([^"]+)"|(?:read|import)\("([^"]+)"', page)
    files = {next(filter(None, each)) for each in named}
    assert {"style.css", "vendor/sentencepiece.js", "model/settings.json"} <= files
    assert [name for name in files if not (site / name).is_file()] == []
    assert exported["lengths"] == [16, 24]
    assert (exported["quantize"], exported["predictions"]) == ("dynamic", None)
    settings = json.loads((site / "model" / "settings.json").read_text())
    assert (settings["name"], settings["task"]) == ("stars", "text-classification")
    assert settings["labels"] == ["bad", "naïve", "good"]
    assert (site / "model" / "spiece.model").read_bytes() == tokenizer.model_bytes
    loaded = {"app.js", "files.js", "style.css", "model/model.tflite", "model/spiece.model"}
    assert loaded | {"vendor/litert/wasm/litert_wasm_internal.wasm"} <= settings["files"].keys()
    assert settings["files"]["model/model.tflite"] == [4, zlib.crc32(b"TFL3")]
    assert (site / "vendor" / "LICENSE").is_file()
    assert "@litertjs/core 2" in (site / "vendor" / "README.md").read_text()


def run_script(folder, name, code, sentencepiece="export const open = null;"):
    """Returns what Node.js prints for a script that has imported a module of the page.

    `sentencepiece` is a stand-in for the package.
    """
    node = shutil.which("node") or pytest.skip("needs Node.js")
    module = folder / f"{name}.mjs"
    shutil.copy(web.PAGE / f"{name}.js", module)
    (folder / "package.json").write_text('{"type": "module"}')
    (folder / "vendor").mkdir()
    (folder / "vendor" / "sentencepiece.js").write_text(sentencepiece)
    (folder / "run.mjs").write_text(f"import * as page from '{module.as_uri()}';{code}")
    done = subprocess.run([node, folder / "run.mjs"], capture_output=True, text=True, timeout=60)
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_a_file_that_is_not_the_exported_one_is_named(tmp_path):
    """Without its vocabulary or with the wrong page, every text used to get the same answer."""
    content = b"the vocabulary"
    answers = {
        "model/settings.json": [200, json.dumps({"files": {"v": [14, zlib.crc32(content)]}})],
        "v": [200, content.decode()],
    }
    code = """
      const answers = ANSWERS;
      globalThis.fetch = async (name) => {
        if (answers[name] === null) throw new Error("offline");
        const [status, text] = answers[name];
        return new Response(text, { status });
      };
      await page.readSettings();
      console.log((await page.read("v")).length, await page.fault());
      for (const answer of [[404, ""], [200, "<html>"], [200, "the vocabulari"], null]) {
        answers.v = answer;
        console.log(await page.fault());
      }
      answers["model/settings.json"][1] = "<html>";
      await page.readSettings().catch((error) => console.log(error.message));
    """.replace("ANSWERS", json.dumps(answers))
    assert run_script(tmp_path, "files", code) == [
        "14 null",
        "the server responded to v with status 404.",
        "v has 6 bytes instead of 14.",
        "v is damaged: its checksum differs.",
        "v can't be fetched (offline).",
        "model/settings.json isn't valid JSON: <html>",
    ]


def test_a_text_that_was_cut_is_said(tmp_path):
    code = """
      const settings = { pairs: false, scores: "none", labels: ["a"], pooling: "mean",
        threshold: null, special: { cls: 2, sep: 3, separators: 1 } };
      const tokenizer = { ids: (text) => Array.from(text, () => 9) };
      const outputs = { logits: { values: [1] },
        last_hidden_state: { values: new Array(8).fill(1), shape: [1, 8, 1] } };
      const model = { length: 8, run: async (...row) => ({ outputs, row }) };
      const given = { settings, tokenizer, model };
      const print = (found) => console.log(JSON.stringify(found.cut ?? null));
      print(await page.classify(given, "123456"));
      print(await page.classify(given, "1234567"));
      for (const again of [1, 2]) print(await page.search(given, "1", "1\\n1234567"));
      settings.pairs = true;
      print(await page.classify(given, "123", "456"));
      settings.special.separators = 2;
      const found = await page.classify(given, "123", "456");
      print(found);
      console.log(JSON.stringify(found.runs[0].row));
    """
    assert list(map(json.loads, run_script(tmp_path, "tasks", code))) == [
        None,
        {"what": "The text is", "read": 6, "pieces": 7},
        *[{"what": "“1234567…” is", "read": 6, "pieces": 7}] * 2,
        {"what": "The texts are", "read": 5, "pieces": 6},
        {"what": "The texts are", "read": 4, "pieces": 6},
        [[2, 9, 9, 3, 3, 9, 9, 3], [0] * 8],
    ]


def test_special_tokens_in_a_text_are_plain_text(tmp_path):
    """Even if the vocabulary lacks their characters, so that they are one unknown word."""
    model = sentencepiece_model_pb2.ModelProto()
    for piece, kind in (("<pad>", "CONTROL"), ("<unk>", "UNKNOWN"), ("▁", "NORMAL")):
        model.pieces.add(piece=piece, type=model.SentencePiece.Type.Value(kind))
    stand_in = "export const open = () => ({ encodePieces: (text) => ['▁', text] });"
    code = f"""
      const content = new Uint8Array({list(model.SerializeToString())});
      const tokenizer = await page.Tokenizer.load(content);
      console.log(JSON.stringify(tokenizer.ids("<pad>")));
    """
    assert run_script(tmp_path, "tokenizer", code, stand_in) == ["[2,1]"]


def test_lengths_and_masks(exported, model_of, tiny_vocabulary, node_modules, tmp_path):
    model = model_of("masked-lm", max_position_embeddings=512)
    expected = {8: [8], 16: [16], 128: [16, 64, 128], 512: [16, 64, 128, 384]}
    for limit, lengths in expected.items():
        tokenizer = AlbertTokenizer(tiny_vocabulary, model_max_length=limit)
        web.export_web(model, tokenizer, tmp_path / str(limit), node_modules=node_modules)
        assert exported["lengths"] == lengths
        assert exported["predictions"] == web.PREDICTIONS


def test_half_a_page_is_never_seen(monkeypatch, classifier, tokenizer, node_modules, tmp_path):
    def fail(*_, **__):
        raise OSError("the disk is full")

    monkeypatch.setattr(web, "export_tflite", fail)
    with pytest.raises(OSError, match="the disk is full"):
        web.export_web(classifier, tokenizer, tmp_path / "site", node_modules=node_modules)
    assert [path.name for path in tmp_path.iterdir()] == ["node_modules"]


def test_models_and_vocabularies_that_have_no_page(
    make_model, model_of, tokenizer, classifier, tmp_path
):
    by_maximum = make_model("encoder")
    by_maximum.sentence_embedding = functools.partial(SentenceEmbedding, "max")
    by_dot = make_model("encoder")
    by_dot.sentence_embedding = functools.partial(SentenceEmbedding, "mean", similarity="dot")
    for model, vocabulary, message in (
        (model_of("token-classification"), tokenizer, "Received: .*TokenClassification"),
        (AlbertForSimilarity(by_dot.config), tokenizer, "Received: AlbertForSimilarity"),
        (by_maximum, tokenizer, "Received: max"),
        (by_dot, tokenizer, "Received: similarity_fn_name 'dot'"),
        (classifier, object(), "Received: object"),
    ):
        with pytest.raises(UserError, match=message):
            web.export_web(model, vocabulary, tmp_path / "site")
    (tmp_path / "site").write_text("mine")
    with pytest.raises(UserError, match="must be a folder. Received: .*site, a file"):
        web.export_web(classifier, tokenizer, tmp_path / "site")
    with pytest.raises(UserError, match="pairs=True with AlbertForMaskedLM"):
        web.export_web(model_of("masked-lm"), tokenizer, tmp_path / "site", pairs=True)


def test_packages_of_other_versions(classifier, tokenizer, node_modules, tmp_path):
    description = node_modules / web.LITERT / "package.json"
    for content, received in (('{"version": "1.0.0"}', "1.0.0"), ("{}", "none")):
        description.write_text(content)
        with pytest.raises(
            UserError, match=rf"@litertjs/core \S+ Received: {received}\. Copy .*`npm ci`"
        ):
            web.export_web(classifier, tokenizer, tmp_path / "site", node_modules=node_modules)
    assert not (tmp_path / "site").exists()


def test_npm_is_missing_or_fails(monkeypatch, classifier, tokenizer, tmp_path):
    monkeypatch.setattr(sys, "executable", str(tmp_path / "python"))
    monkeypatch.setenv("PATH", "")
    with pytest.raises(UserError, match="not found on PATH. Install Node.js"):
        web.export_web(classifier, tokenizer, tmp_path / "site")
    npm = tmp_path / "npm"
    npm.write_text("#!/bin/sh\necho npm error network down >&2\nexit 1\n")
    npm.chmod(0o755)
    with pytest.raises(UserError, match="packages: npm error network down. Check the network"):
        web.export_web(classifier, tokenizer, tmp_path / "site")


def test_the_lock_file_pins_versions_and_names_no_host():
    wanted = json.loads((web.PAGE / "package.json").read_text())["dependencies"]
    assert wanted == {name: LOCK[f"node_modules/{name}"]["version"] for name in wanted}
    assert all("integrity" in each for name, each in LOCK.items() if name)
    assert "http" not in (web.PAGE / web.LOCK).read_text()


def test_the_command_line(exported, tokenizer, classifier, node_modules, tmp_path):
    """Names the page after the model's folder."""
    for part in (classifier, tokenizer):
        part.save_pretrained(tmp_path / "stars")
    given = ["export", "web", "--model", tmp_path / "stars", "--output", tmp_path / "site"]
    given += ["--node-modules", node_modules, "--lengths", "8,24", "--pairs", "--no-check"]
    assert main([*map(str, given)]) == 0
    assert (exported["lengths"], exported["check"]) == ((8, 24), False)
    settings = json.loads((tmp_path / "site" / "model" / "settings.json").read_text())
    assert (settings["name"], settings["pairs"]) == ("stars", True)


@pytest.mark.parametrize(
    ("fields", "scores"),
    [
        ({"id2label": {0: "stars"}}, "none"),
        ({"id2label": {0: "spam"}, "problem_type": "multi_label_classification"}, "sigmoid"),
        ({}, "softmax"),
    ],
)
def test_scores_are_the_pipelines(make_classifier, tokenizer, fields, scores):
    model = make_classifier(**fields)
    assert web._settings(model, tokenizer, pairs=False)["scores"] == scores


def test_invisible_characters_around_an_answer(tmp_path):
    """All that `albert_tf.text.answers.trimmed` drops, with a vocabulary of one word."""
    characters = map(chr, of_categories(INVISIBLE))
    texts = [f"in {character}boat{character} now" for character in characters]
    assert {trimmed(text, 3, 9) for text in texts} == {(4, 8)}
    code = """
      const encodePieces = (text) => [`▁${text.split(/[^a-z]+/).filter(Boolean).join("▁")}`];
      const scores = new Map([["▁boat", 0]]);
      const vocabulary = { scores, ids: new Map(), unknown: 1, longest: 5, least: -9 };
      const tokenizer = new page.Tokenizer({ encodePieces }, vocabulary);
      for (const text of TEXTS) {
        const { pieces, span } = tokenizer.details(text);
        const at = pieces.indexOf("▁boat");
        console.log(JSON.stringify(span(at, at)));
      }
    """.replace("TEXTS", json.dumps(texts))
    assert set(run_script(tmp_path, "tokenizer", code)) == {"[4,8]"}


def test_characters_of_tokens(tiny_vocabulary, tmp_path):
    """A token covers the same characters and begins a word if it does so in Python."""
    texts = [
        "a ‾ b‾c",
        "‾ 3⅓\u0301x 9½",
        "isn't𝚥ﷺ‼ ‼a",
        "b \u0300 c  ",
        "\u0301ᄀ\u1161\u11a8 oﬃce",
    ]
    expected = []
    tokenizer = AlbertTokenizer(tiny_vocabulary)
    for text, tokens in zip(texts, tokenizer.tokens_of(texts, True, True), strict=True):
        spans = [trimmed(text, *span) for span in tokens.offsets.tolist()]
        covered = [list(span) if span[0] < span[1] else [] for span in spans]
        words = (np.diff(tokens.words, prepend=-1) > 0).tolist()
        expected.append([tokens.ids.tolist(), words, covered])
    stand_in = """
      const normalize = (text) =>
        text.normalize("NFKD").replace(/\\p{M}/gu, "").normalize("NFC").toLowerCase();
      const encodePieces = (text) => [`▁${normalize(text).trim()}`.replace(/ +/g, "▁")];
      export const open = () => ({ encodePieces });
    """
    code = f"""
      const tokenizer = await page.Tokenizer.load(new Uint8Array({list(tiny_vocabulary)}));
      for (const text of {json.dumps(texts)}) {{
        const {{ ids, isWord, span }} = tokenizer.details(text);
        const spans = ids.map((_, at) => span(at, at)).map(([a, b]) => (a < b ? [a, b] : []));
        console.log(JSON.stringify([ids, isWord, spans]));
      }}
    """
    assert list(map(json.loads, run_script(tmp_path, "tokenizer", code, stand_in))) == expected


def test_marks_are_the_characters_of_the_text(tmp_path):
    """A vocabulary replaces the first character with a full stop, which begins no answer."""
    code = """
      const ends = [0, 0, 1, 3];
      const span = (first, last) => [ends[first], ends[last + 1]];
      const details = () => ({ ids: [5, 6, 7], isWord: [true, false, false], span });
      const scores = { values: Float32Array.from([0, 0, 0, 0, 0, 9, 0]) };
      const outputs = { start_logits: scores, end_logits: scores };
      const special = { cls: 2, sep: 3, separators: 1 };
      const settings = { special, threshold: null };
      const tokenizer = { ids: () => [9], details };
      const given = { settings, tokenizer, model: { length: 9, run: async () => ({ outputs }) } };
      for (const text of ["．ab", ".ab"]) {
        console.log((await page.answer(given, "?", text)).answers[0].text);
      }
    """
    assert run_script(tmp_path, "tasks", code) == ["．ab", "ab"]


@pytest.mark.parametrize("answerability", [False, True])
def test_spans_of_random_logits(random_windows, answerability, tmp_path):
    """The page finds the spans that `albert_tf.text.answers.best_spans` finds."""
    windows = random_windows(answerability)
    given = [
        [{name: {"values": np.atleast_1d(value).tolist()} for name, value in outputs.items()}, *at]
        for outputs, *at, _ in windows
    ]
    code = f"""
      for (const [outputs, before, count] of {json.dumps(given)}) {{
        for (const {{ values }} of Object.values(outputs)) values.subarray = values.slice;
        console.log(JSON.stringify(page.spans(outputs, before, count)));
      }}
    """
    lines = run_script(tmp_path, "tasks", code)
    for line, (outputs, before, _, possible) in zip(lines, windows, strict=True):
        found, expected = json.loads(line), best_spans(outputs, possible, count=20, longest=15)
        assert [(before + first, before + last) for first, last, _ in found["spans"]] == [
            span[:2] for span in expected.spans
        ]
        scores = [score for *_, score in found["spans"]]
        assert scores == pytest.approx([span.score for span in expected.spans], rel=1e-5)
        assert found["none"] == pytest.approx(expected.null_logit, rel=1e-5)
        best = expected.spans[0].logit if expected.spans and not answerability else 0.0
        assert found["top"] == pytest.approx(best, rel=1e-5)
