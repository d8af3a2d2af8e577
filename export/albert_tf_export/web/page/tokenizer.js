// Raw text to the ids of a SentencePiece vocabulary, with the same result as albert_tf's tokenizer.
import { open } from "./vendor/sentencepiece.js";

const SPACE = "▁"; // SentencePiece's space, which begins a word
const LONE_SURROGATES = /[\ud800-\udfff]/gu;
const NO_CHARACTER = "\u{10ffff}"; // unknown to every vocabulary

const characters = (text) => Array.from(text); // code points

export class Tokenizer {
  static async load(content) {
    return new Tokenizer(await open(content));
  }

  constructor(processor) {
    this.processor = processor;
  }

  ids(text) {
    return this.processor.encodeIds(wellFormed(text));
  }

  pieces(text) {
    return this.processor.encodePieces(wellFormed(text));
  }

  decode(ids) {
    return this.processor.decodeIds(ids).replace(/^ /, "");
  }

  // Returns ids; for each, its piece and whether it begins a word; and `span(first, last)`, which
  // returns the characters that make the pieces `first` to `last`, white space trimmed.
  details(text) {
    const pieces = this.pieces(text);
    const after = []; // normalized characters up to the end of each piece
    for (const piece of pieces) after.push((after.at(-1) ?? 0) + characters(piece).length);
    const isWord = pieces.map((piece, at) => at === 0 || piece.startsWith(SPACE));
    const letters = characters(text);
    const counts = this.#counts(text);
    const span = (first, last) => {
      const begin = (after[first - 1] ?? 0) + (pieces[first].startsWith(SPACE) ? 1 : 0);
      let start = Math.max(0, counts.findIndex((count) => count > begin) - 1);
      // A character that becomes several (a ligature) belongs to each piece that has one of them;
      // one that becomes none (an accent) belongs to the character before it.
      let end = Math.max(
        counts.findIndex((count) => count >= after[last]),
        counts.findLastIndex((count) => count <= after[last]),
      );
      while (start < end && !letters[start].trim()) start += 1;
      while (end > start && !letters[end - 1].trim()) end -= 1;
      return [start, end];
    };
    return { ids: this.ids(text), pieces, isWord, span };
  }

  // The number of normalized characters that the first 0, 1, 2, … characters of a text make.
  // A word's normalized length is that of its pieces; words don't depend on each other.
  #counts(text) {
    const counts = [0];
    let before = 0;
    for (const word of text.match(/\s*\S{1,48}|\s+/gu) ?? []) {
      const letters = characters(word);
      const goesOn = before > 0 && letters[0].trim() ? 1 : 0; // has no space before it
      for (let size = 1; size <= letters.length; size += 1) {
        const length = characters(this.pieces(letters.slice(0, size).join("")).join("")).length;
        counts.push(Math.max(counts.at(-1), before + Math.max(0, length - goesOn)));
      }
      before = counts.at(-1);
    }
    return counts;
  }
}

function wellFormed(text) {
  return text.replace(LONE_SURROGATES, NO_CHARACTER);
}
