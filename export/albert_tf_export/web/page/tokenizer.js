// Encodes raw text with a SentencePiece vocabulary to the same ids as albert_tf's tokenizer.
import { open } from "./vendor/sentencepiece.js";

const SPACE = "▁"; // SentencePiece's space, which begins a word
// Characters that no answer starts or ends with: INVISIBLE in albert_tf/text/answers.py.
const INVISIBLE = /^[\p{Z}\p{Cc}\p{Cf}]$/u;
const LONE_SURROGATES = /[\ud800-\udfff]/gu;
const NO_CHARACTER = "\u{10ffff}"; // unknown to every vocabulary

const characters = (text) => Array.from(text); // code points

export class Tokenizer {
  static async load(content) {
    return new Tokenizer(await open(content), vocabulary(content));
  }

  constructor(processor, vocabulary) {
    this.processor = processor;
    this.vocabulary = vocabulary;
  }

  ids(text) {
    return this.#idsOf(this.pieces(text));
  }

  #idsOf(pieces) {
    const { ids, scores, unknown } = this.vocabulary;
    return pieces.map((piece) => (scores.has(piece) ? ids.get(piece) : unknown));
  }

  // The package contains an old version of SentencePiece, which chooses differently between
  // segmentations with (nearly) equal scores, such as "ee" "e" and "e" "ee". It only
  // normalizes here.
  pieces(text) {
    return divide(this.#normalized(text), this.vocabulary);
  }

  #normalized(text) {
    return characters(this.processor.encodePieces(wellFormed(text)).join(""));
  }

  decode(ids) {
    return this.processor.decodeIds(ids).replace(/^ /, "");
  }

  // Returns the ids, the piece of each id, whether it begins a word, and `span(first, last)`, which
  // returns the characters of the pieces `first` to `last`, without invisible ones at either end.
  details(text) {
    const pieces = this.pieces(text);
    const after = []; // normalized characters up to the end of each piece
    for (const piece of pieces) after.push((after.at(-1) ?? 0) + characters(piece).length);
    const isWord = pieces.map((piece, at) => at === 0 || piece.startsWith(SPACE));
    const letters = characters(text);
    const counts = this.#counts(text);
    // Returns the index of the character that a normalized character comes from.
    const origin = (index) => {
      const next = counts.findIndex((count) => count > index);
      return next < 0 ? letters.length : next - 1;
    };
    const lead = letters.findIndex((letter) => this.#between(letter).join("") !== SPACE);
    const span = (first, last) => {
      const isWordStart = pieces[first].startsWith(SPACE) && pieces[first] !== SPACE;
      const begin = (after[first - 1] ?? 0) + (isWordStart ? 1 : 0);
      let start = begin ? origin(begin) : lead;
      // A character that normalizes to several (a ligature) belongs to every piece that contains
      // one of them. One that normalizes to none (an accent) belongs to the character before it.
      const final = origin(after[last] - 1);
      let end = final < 0 ? start : origin(counts[final + 1]);
      while (start < end && INVISIBLE.test(letters[start])) start += 1;
      while (end > start && INVISIBLE.test(letters[end - 1])) end -= 1;
      return [start, end];
    };
    return { ids: this.#idsOf(pieces), pieces, isWord, span };
  }

  // Returns the number of normalized characters for the first 0, 1, 2, … characters of a text.
  // Words are normalized independently, so each one is measured separately.
  #counts(text) {
    const counts = [1]; // the space that is added before the text
    let isAfterSpace = true;
    for (const word of text.match(/\s*\S{1,48}|\s+/gu) ?? []) {
      const letters = characters(word);
      const before = counts.at(-1);
      let found = [];
      for (let size = 1; size <= letters.length; size += 1) {
        found = this.#between(letters.slice(0, size).join(""));
        const isMerged = isAfterSpace && found[0] === SPACE;
        counts.push(Math.max(counts.at(-1), before + found.length - (isMerged ? 1 : 0)));
      }
      if (found.length) isAfterSpace = found.at(-1) === SPACE;
    }
    return counts;
  }

  // Returns the normalized characters of a text that is put between two letters, so that its outer
  // spaces remain. No accent combines with the letter q.
  #between(text) {
    return this.#normalized(`q${text}q`).slice(2, -1);
  }
}

// Returns the segmentation with the highest sum of scores, which is computed in float32 as in
// SentencePiece. Of equal sums, the one whose last piece begins first wins. Adjacent characters
// without a piece are merged.
function divide(letters, { scores, longest, least }) {
  const best = [{ score: 0 }, ...letters.map(() => ({ score: -Infinity }))];
  const offer = (end, score, start, isUnknown) => {
    const sum = Math.fround(score);
    if (sum > best[end].score) best[end] = { score: sum, start, isUnknown };
  };
  letters.forEach((letter, start) => {
    let piece = "";
    for (let end = start + 1; end <= Math.min(start + longest, letters.length); end += 1) {
      piece += letters[end - 1];
      const score = scores.get(piece);
      if (score !== undefined) offer(end, best[start].score + score, start, false);
    }
    if (!scores.has(letter)) offer(start + 1, best[start].score + least, start, true);
  });
  const pieces = [];
  let after = { isUnknown: false };
  for (let end = letters.length; end > 0; end = after.start) {
    const { start, isUnknown } = best[end];
    const piece = letters.slice(start, end).join("");
    if (isUnknown && after.isUnknown) pieces[0] = piece + pieces[0];
    else pieces.unshift(piece);
    after = best[end];
  }
  return pieces;
}

const [NORMAL, UNKNOWN, USER_DEFINED] = [1, 2, 4]; // kinds of pieces
const UNKNOWN_PENALTY = 10;

// Reads the pieces of a SentencePiece model: field 1 of a protocol buffer, with text, score, type.
function vocabulary(content) {
  const [ids, scores, userDefined] = [new Map(), new Map(), new Map()];
  const utf8 = new TextDecoder();
  let unknown = 0;
  for (const [field, message] of fields(content)) {
    if (field !== 1) continue;
    const { 1: text, 2: score, 3: kind = NORMAL } = Object.fromEntries(fields(message));
    const piece = utf8.decode(text);
    if (kind === UNKNOWN) unknown = ids.size;
    ids.set(piece, ids.size);
    if (kind === NORMAL || kind === USER_DEFINED) scores.set(piece, score ?? 0);
    if (kind === USER_DEFINED) userDefined.set(piece, text.length);
  }
  const normal = [...scores].filter(([piece]) => !userDefined.has(piece)).map(([, score]) => score);
  const [least, most] = [Math.min, Math.max].map((choose) => normal.reduce((a, b) => choose(a, b)));
  for (const [piece, bytes] of userDefined) scores.set(piece, bytes * most - 0.1);
  const longest = Math.max(...Array.from(scores.keys(), (piece) => characters(piece).length));
  return { ids, scores, unknown, longest, least: Math.fround(least - UNKNOWN_PENALTY) };
}

// Yields the number and value of each field in a protocol buffer.
function* fields(bytes) {
  const view = new DataView(bytes.buffer, bytes.byteOffset, bytes.byteLength);
  let at = 0;
  const number = () => {
    let [value, size] = [0, 1];
    for (;;) {
      const byte = bytes[at++];
      value += (byte & 127) * size;
      size *= 128;
      if (byte < 128) return value;
    }
  };
  while (at < bytes.length) {
    const key = number();
    const kind = key % 8;
    let value;
    if (kind === 0) value = number();
    else if (kind === 5) [value, at] = [view.getFloat32(at, true), at + 4];
    else if (kind === 1) at += 8;
    else {
      const size = number();
      [value, at] = [bytes.subarray(at, at + size), at + size];
    }
    yield [Math.floor(key / 8), value];
  }
}

function wellFormed(text) {
  return text.replace(LONE_SURROGATES, NO_CHARACTER);
}
