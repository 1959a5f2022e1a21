import DOMPurify from "dompurify";
import type { MarkedExtension, TokenizerAndRendererExtension } from "marked";
import temml from "temml/temml.js"; // without chemistry and physics, which are a fifth of it

/** A formula in TeX, with its delimiters in raw. */
interface Formula {
  raw: string;
  tex: string;
  display: boolean;
}

/** A longer text between delimiters is none. In UTF-16 units; it bounds what looking for an end costs. */
const longest = 10_000;

/** Environments that are formulas without delimiters. */
const environments = /^\\begin\{((?:equation|align|alignat|gather|multline|eqnarray)\*?)\}/;

const blankLine = /\n[ \t]*(?:\n|$)/;

/** What formulas have and sentences do not. */
const sign = /[\\^_={}<>+|]/;

/** The formula that text begins with, if it does. */
function formulaAt(text: string): Formula | undefined {
  const paragraph = text.slice(0, longest).split(blankLine, 1)[0]!;
  const environment = environments.exec(paragraph);
  if (environment) {
    const close = `\\end{${environment[1]}}`;
    const end = paragraph.indexOf(close);
    if (end < 0) return unended(paragraph, environment[0]);
    const raw = paragraph.slice(0, end + close.length);
    return { raw, tex: raw, display: true };
  }
  for (const [open, close, display] of delimiters) {
    if (!paragraph.startsWith(open)) continue;
    const end = endOf(paragraph, open.length, close);
    if (end < 0) return unended(paragraph, open);
    const tex = paragraph.slice(open.length, end);
    if (tex.trim() === "" || isProse(tex, open === "$")) return undefined;
    // As pandoc has it, so that prices stay text: no spaces within the signs, and no word or number after them.
    if (open === "$" && (/^\s|\s$|[`\n]/.test(tex) || /^[A-Za-z0-9$]/.test(paragraph.slice(end + 1)))) return undefined;
    return { raw: paragraph.slice(0, end + close.length), tex, display };
  }
  return undefined;
}

const delimiters: [open: string, close: string, display: boolean][] = [
  ["$$", "$$", true],
  ["$", "$", false],
  ["\\(", "\\)", false],
  ["\\[", "\\]", true],
];

/** Where close is in text from a place on, or -1. A backslash takes the sign after it along. */
function endOf(text: string, from: number, close: string): number {
  for (let i = from; i < text.length; i++) {
    if (text.startsWith(close, i)) return i;
    if (text[i] === "\\") i++;
  }
  return -1;
}

/** Whether what is between the signs reads as a sentence: "$5, or US$ 6", "\[not a link\]". */
function isProse(tex: string, dollars: boolean): boolean {
  const price = dollars && /^[\d.,]/.test(tex);
  if ((price ? /[\\^_{}]/ : sign).test(tex) || !/\s/.test(tex.trim())) return false;
  return (price ? /\p{L}{2,}/u : /\p{L}{3,}/u).test(tex);
}

/** A formula whose end is missing, to the end of its paragraph. It stays as it was written: Markdown would take its backslashes. */
function unended(paragraph: string, open: string): Formula | undefined {
  const rest = paragraph.slice(open.length);
  const begins = open === "$" ? live && /^[^\s\d]/.test(rest) && !rest.includes("\n") && sign.test(rest) : live || sign.test(rest);
  return begins ? { raw: paragraph, tex: "", display: false } : undefined;
}

/** Whether the text that is read is still being written. */
let live = false;

/** Calls read, which reads a text that is still being written or is not. */
export function reading<T>(written: boolean, read: () => T): T {
  live = written;
  try {
    return read();
  } finally {
    live = false;
  }
}

/** Where a formula may begin; a dollar after a word or a number is money. */
const openings = /(?<![A-Za-z0-9\\$])\$|\\[([]/g;

function* formulasIn(text: string): Generator<{ at: number; raw: string }> {
  for (const opening of text.matchAll(openings)) {
    const raw = formulaAt(text.slice(opening.index))?.raw;
    if (raw) yield { at: opening.index, raw };
  }
}

const inline: TokenizerAndRendererExtension = {
  name: "formula",
  level: "inline",
  start: (text) => formulasIn(text).next().value?.at,
  tokenizer(text) {
    const raw = formulaAt(text)?.raw;
    return raw ? { type: "formula", raw } : undefined;
  },
  renderer: ({ raw }) => placeholder(raw),
};

/** Formulas on lines of their own: Markdown would take lines that begin with = or + for something else. */
const block: TokenizerAndRendererExtension = {
  name: "formulas",
  level: "block",
  start(text) {
    const paragraph = text.split(blankLine, 1)[0]!;
    for (const { index } of paragraph.matchAll(/\n(?= {0,3}(?:\$\$|\\\[|\\begin\{))/g)) if (blockAt(text.slice(index + 1))) return index + 1;
    return undefined;
  },
  tokenizer(text) {
    const raw = blockAt(text);
    return raw ? { type: "formulas", raw } : undefined;
  },
  renderer: ({ raw }) => `<p>${placeholder(raw.trim())}</p>`,
};

function blockAt(text: string): string {
  const indent = /^ {0,3}(?=\$\$|\\\[|\\begin\{)/.exec(text)?.[0];
  if (indent === undefined) return "";
  const rest = text.slice(indent.length);
  const f = formulaAt(rest);
  const end = f && /^[ \t]*(?:\n+|$)/.exec(rest.slice(f.raw.length));
  return end ? indent + f.raw + end[0] : "";
}

function placeholder(raw: string): string {
  const display = formulaAt(raw)?.display;
  return `<span class="tex${display ? " display" : ""}"${display ? ' tabindex="0"' : ""}>${escape(raw)}</span>`;
}

export function escape(text: string): string {
  return text.replace(/[&<>"']/g, (c) => `&#${c.charCodeAt(0)};`);
}

/** Has Marked find formulas, which it leaves as text in elements of the class tex. */
export const formulas: MarkedExtension = {
  extensions: [block, inline],
  hooks: {
    emStrongMask(text) {
      for (const { at, raw } of formulasIn(text)) text = text.slice(0, at) + "a".repeat(raw.length) + text.slice(at + raw.length);
      return text;
    },
  },
};

/** Draws the formulas in place of their texts. One that cannot be read stays a text. */
export function draw(within: DocumentFragment): void {
  for (const element of within.querySelectorAll<HTMLElement>(".tex")) {
    const raw = element.textContent!;
    const drawing = drawn(raw);
    if (!drawing) continue;
    element.dataset.tex = raw;
    element.replaceChildren(drawing.cloneNode(true));
  }
}

/** Formulas that were drawn, by their texts: the end of an answer is drawn again with each of its tokens. */
const drawings = new Map<string, DocumentFragment | null>();
const mostDrawings = 1000;

const sanitizer = DOMPurify(window);

function drawn(raw: string): DocumentFragment | null {
  let drawing = drawings.get(raw);
  if (drawing !== undefined) return drawing;
  const f = formulaAt(raw);
  drawing = f?.tex && f.raw === raw ? mathML(f) : null;
  if (drawings.size >= mostDrawings) drawings.clear();
  drawings.set(raw, drawing);
  return drawing;
}

/** Shorter formulas are not broken into lines: some lose spaces then. */
const unbroken = 40;

function mathML({ tex, display }: Formula): DocumentFragment | null {
  let markup: string;
  try {
    // A bare % would begin a comment, which TeX leaves out.
    markup = temml.renderToString(
      tex.replace(/\\[^]|%/g, (s) => (s === "%" ? "\\%" : s)),
      { displayMode: display, throwOnError: true, maxSize: [50, 500], wrap: tex.length > unbroken ? "tex" : "none" },
    );
  } catch {
    return null;
  }
  // The page's policy forbids styles in markup, and allows them to be set one by one. Temml escapes quotation marks in texts.
  const clean: DocumentFragment = sanitizer.sanitize(markup.replaceAll(' style="', ' data-style="'), {
    RETURN_DOM_FRAGMENT: true,
    USE_PROFILES: { mathMl: true },
    ADD_ATTR: ["class", "data-style", "form"],
    FORBID_ATTR: ["href", "id"],
  });
  for (const e of clean.querySelectorAll<MathMLElement>("[data-style]")) {
    e.style.cssText = e.dataset.style!;
    e.removeAttribute("data-style");
  }
  return clean;
}
