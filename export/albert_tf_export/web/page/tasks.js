// Computes answers from texts, with the same rules as albert_tf's pipelines.

const TOP = 5; // number of answers to show
const LONGEST_ANSWER = 15; // tokens
const LONGEST_WINDOW = 384; // tokens; the defaults of the question-answering pipeline
const LONGEST_QUESTION = 64;
const SHARED = 128;
const MARKS = /^[\p{Ps}\p{Pe}\p{Pi}\p{Pf}\p{Z}\p{Cc}\p{Cf}"'.,;:!?…、。，；：！？]*$/u;
const SPACE = "▁"; // SentencePiece's space

// The functions take `page`: { settings, tokenizer, model }. They return `answers`, best first;
// `runs`, the signature and time of each call; and `cut`, what was truncated, if anything.

export async function classify(page, text, second) {
  const { settings, tokenizer, model } = page;
  let [first, pair] = [tokenizer.ids(text), settings.pairs ? tokenizer.ids(second) : null];
  const room = model.length - (pair ? 2 + settings.special.separators : 2);
  const pieces = first.length + (pair?.length ?? 0);
  if (pieces > room) {
    if (pair) {
      const kept = Math.min(first.length, Math.max(room - pair.length, (room + 1) >> 1));
      [first, pair] = [first.slice(0, kept), pair.slice(0, room - kept)];
    } else {
      first = first.slice(0, room);
    }
  }
  const run = await model.run(...row(settings, first, pair));
  // A regression model's `logits` and `value` are the same tensor, which has only one name.
  const logits = Array.from((run.outputs.logits ?? run.outputs.value).values);
  const apply = { softmax, sigmoid: (values) => values.map(sigmoid), none: (values) => values };
  const scores = apply[settings.scores](logits);
  const answers = scores.map((score, index) => ({ text: settings.labels[index], score }));
  const what = pair ? "The texts are" : "The text is";
  return { answers: best(answers), runs: [run], cut: cut(what, room, pieces) };
}

// Returns answers for each mask. If a text is longer than a row, each mask gets its own window.
export async function fillMask(page, text) {
  const { settings, tokenizer, model } = page;
  const { special } = settings;
  const ids = withMasks(tokenizer, settings, text);
  const masks = ids.flatMap((id, at) => (id === special.mask ? [at] : []));
  if (!masks.length) {
    const mask = settings.specials[special.mask];
    throw new Error(`The text must contain ${mask} where a word is missing.`);
  }
  const room = model.length - 2;
  const windows = [];
  if (ids.length <= room) {
    const size = model.masks ?? masks.length;
    for (let at = 0; at < masks.length; at += size) {
      windows.push([0, ids, masks.slice(at, at + size)]);
    }
  } else {
    for (const mask of masks) {
      const start = Math.min(Math.max(mask - (room >> 1), 0), ids.length - room);
      windows.push([start, ids.slice(start, start + room), [mask]]);
    }
  }
  const [answers, runs] = [[], []];
  for (const [start, part, at] of windows) {
    const positions = at.map((mask) => mask - start + 1);
    const run = await model.run(...row(settings, part), positions);
    const { values, shape } = run.outputs.logits ?? run.outputs.prediction_logits;
    const size = shape.at(-1);
    at.forEach((mask, index) => {
      const position = model.masks ? index : positions[index];
      const scores = softmax(Array.from(values.subarray(position * size, (position + 1) * size)));
      const found = scores.map((score, id) => ({ id, score }));
      answers.push(best(found).map(({ id, score }) => {
        const filled = [...ids.slice(0, mask), id, ...ids.slice(mask + 1)];
        const readable = filled.filter((each) => !(each in settings.specials));
        const word = settings.specials[id] ?? tokenizer.decode([id]);
        return { id, score, text: word, sequence: tokenizer.decode(readable) };
      }));
    });
    runs.push(run);
  }
  return { answers, runs, ids };
}

// Returns answers as spans of characters (code points) in the context, and in `none`, whether
// there is no answer.
export async function answer(page, question, context) {
  const { settings, tokenizer, model } = page;
  const length = Math.min(model.length, LONGEST_WINDOW);
  const added = 2 + settings.special.separators;
  const limit = Math.max(1, Math.min(LONGEST_QUESTION, (length - added) >> 1));
  const all = tokenizer.ids(question);
  const asked = all.slice(0, limit);
  const given = tokenizer.details(context);
  const room = length - added - asked.length;
  const shared = Math.max(0, Math.min(SHARED, room >> 1));
  const [found, runs, nulls, tops] = [[], [], [], []];
  for (let start = 0; ; start += room - shared) {
    const part = given.ids.slice(start, start + room);
    const run = await model.run(...row(settings, asked, part));
    const window = spans(run.outputs, asked.length + added - 1, part.length);
    found.push(...merge(window.spans, given, [start, start + part.length], context));
    nulls.push(window.none);
    tops.push(window.top);
    runs.push(run);
    if (start + room >= given.ids.length) break;
  }
  const byText = new Map();
  for (const each of found) {
    const known = byText.get(each.text.toLowerCase());
    if (!known || each.score > known.score) byText.set(each.text.toLowerCase(), each);
  }
  const isBeam = "cls_logits" in runs[0].outputs;
  const nullScore = Math.min(...nulls) - (isBeam ? 0 : Math.max(...tops));
  const none = settings.threshold !== null && nullScore > settings.threshold;
  const isCut = cut("The question is", limit, all.length);
  return { answers: best([...byText.values()]), runs, none, cut: isCut };
}

// Returns the texts in `lines` (one per line) whose vectors have the highest cosine similarity to
// the query's.
export async function search(page, query, lines) {
  const runs = [];
  const wanted = await vector(page, query, runs);
  const cuts = [wanted.cut];
  const known = (page.vectors ??= new Map());
  const answers = [];
  for (const text of new Set(lines.split("\n").map((line) => line.trim()).filter(Boolean))) {
    if (!known.has(text)) known.set(text, await vector(page, text, runs));
    const found = known.get(text);
    const score = found.values.reduce((sum, value, at) => sum + value * wanted.values[at], 0);
    cuts.push(found.cut);
    answers.push({ text, score });
  }
  return { answers: best(answers), runs, cut: cuts.find(Boolean) };
}

// Returns a text's unit vector, and how much of the text was read if it was truncated.
async function vector({ settings, tokenizer, model }, text, runs) {
  const room = Math.min(model.length, settings.longest ?? model.length) - 2;
  const all = tokenizer.ids(text);
  const ids = all.slice(0, room);
  const run = await model.run(...row(settings, ids));
  runs.push(run);
  const { values, shape } = run.outputs.last_hidden_state;
  const sum = new Float64Array(shape.at(-1));
  const count = settings.pooling === "cls" ? 1 : ids.length + 2;
  for (let at = 0; at < count * sum.length; at += 1) sum[at % sum.length] += values[at];
  const norm = Math.hypot(...sum);
  const unit = sum.map((value) => value / norm);
  return { values: unit, cut: cut(`“${text.slice(0, 30)}…” is`, room, all.length) };
}

function cut(what, room, pieces) {
  return pieces > room ? { what, read: room, pieces } : null;
}

function row({ special }, first, pair) {
  const between = Array(special.separators - 1).fill(special.sep);
  const head = [special.cls, ...first, special.sep];
  const tail = pair ? [...between, ...pair, special.sep] : [];
  const type = special.separators === 1 ? 1 : 0; // of the second text
  return [[...head, ...tail], [...head.map(() => 0), ...tail.map(() => type)]];
}

function withMasks(tokenizer, { special, specials }, text) {
  const ids = text.split(specials[special.mask]).flatMap((part, at) => {
    const found = tokenizer.ids(part);
    if (at === 0) return found;
    // In pretraining, no lone "▁" occurs between a mask and a punctuation mark after it.
    const [space, mark] = tokenizer.pieces(part);
    const isLone = space === SPACE && special.marks.includes(mark);
    return [special.mask, ...found.slice(isLone ? 1 : 0)];
  });
  return ids;
}

// Returns a window's spans [first, last, score], with positions relative to the window's context,
// and the logits of no answer and of the best span, like `best_spans` in albert_tf/text/answers.py.
export function spans(outputs, before, count) {
  const wanted = 2 * TOP + 10; // Several spans may have the same text.
  if ("cls_logits" in outputs) {
    const [starts, ends] = [outputs.start_top_index.values, outputs.end_top_index.values];
    const beam = starts.length;
    const found = Array.from(ends, (end, at) => {
      const which = Math.floor(at / beam);
      const sum = outputs.start_top_log_probs.values[which] + outputs.end_top_log_probs.values[at];
      return [starts[which] - before, end - before, Math.exp(sum)];
    }).filter(([first, last, score]) =>
      first >= 0 && first <= last && last < Math.min(first + LONGEST_ANSWER, count) && score > 0);
    return { spans: sorted(found).slice(0, wanted), none: outputs.cls_logits.values[0], top: 0 };
  }
  const [starts, ends] = ["start_logits", "end_logits"].map((name) => outputs[name].values);
  // The distributions cover [CLS] ("no answer") and the context.
  const [startScores, endScores] = [starts, ends].map((values) =>
    softmax([values[0], ...values.subarray(before, before + count)]).slice(1));
  const found = [];
  for (let first = 0; first < count; first += 1) {
    for (let last = first; last < Math.min(first + LONGEST_ANSWER, count); last += 1) {
      found.push([first, last, startScores[first] * endScores[last]]);
    }
  }
  const ranked = sorted(found).slice(0, wanted).filter(([, , score]) => score > 0);
  const top = ranked.length ? starts[before + ranked[0][0]] + ends[before + ranked[0][1]] : 0;
  return { spans: ranked, none: starts[0] + ends[0], top };
}

// Extends spans to whole words of the window, drops the punctuation around them, and adds up the
// scores of spans with the same text.
function merge(found, { isWord, span }, [offset, after], context) {
  const letters = Array.from(context);
  const isMark = (at) => MARKS.test(letters.slice(...span(at, at)).join(""));
  const byText = new Map();
  for (const [first, last, score] of found) {
    let [start, end] = [first + offset, last + offset];
    while (start > offset && !isWord[start]) start -= 1;
    while (end + 1 < after && !isWord[end + 1]) end += 1;
    while (start < first + offset && isMark(start)) start += 1;
    while (end > last + offset && isMark(end)) end -= 1;
    const [from, to] = span(start, end);
    const text = letters.slice(from, to).join("");
    if (!text) continue;
    const known = byText.get(text.toLowerCase());
    if (known) known.score += score;
    else byText.set(text.toLowerCase(), { start: from, end: to, text, score });
  }
  return [...byText.values()];
}

const sorted = (found) => found.sort((one, other) => other[2] - one[2]);
const best = (answers) => answers.sort((one, other) => other.score - one.score).slice(0, TOP);
const sigmoid = (value) => 1 / (1 + Math.exp(-value));

function softmax(values) {
  const largest = values.reduce((one, other) => Math.max(one, other));
  const powers = values.map((value) => Math.exp(value - largest));
  const sum = powers.reduce((one, other) => one + other);
  return powers.map((power) => power / sum);
}
