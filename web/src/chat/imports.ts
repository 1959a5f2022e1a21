import { unzipSync } from "fflate";
import { isObject, Reader, shown } from "./check";
import type { Conversation } from "./conversation";
import { plurals, sessionsIn, sessionsOf, translated, type Left, type Session } from "./llama";

/** What a file holds. */
export interface Imported {
  conversations: Conversation[];
  notes: string[]; // what was left out, in sentences
}

const exportFormat = "powerinfer-conversations-";
const exportVersion = 1;

/** The beginning and the end of an exported file; conversations as JSON, with commas between them, are in the middle. */
export const exportEnds = [`{"format":"${exportFormat}${exportVersion}","conversations":[\n`, "\n]}\n"] as const;

/** The largest file that is read, in bytes; and what an archive unpacks to. A larger text and its objects would not fit a tab. */
const largest = 200 << 20;

const advice = "Choose a file that this page or llama-server's page exported.";

function refuse(what: string): never {
  throw new Error(`${what} Nothing was imported.`);
}

/** Reads a file of any origin. Fails with a sentence unless every field of it is in order. */
export async function readFile(file: Blob): Promise<Imported> {
  if (file.size > largest) refuse(`The file has ${Math.ceil(file.size / (1 << 20)).toLocaleString("en")} MiB; 200 MiB are the most that is read.`);
  return read(new Uint8Array(await file.arrayBuffer()));
}

export function read(bytes: Uint8Array): Imported {
  if (bytes.length === 0) refuse("The file is empty.");
  if (begins(bytes, "PK\x03\x04") || begins(bytes, "PK\x05\x06")) return joined(unpacked(bytes));
  for (const [magic, what] of foreign) if (begins(bytes, magic)) refuse(`The file is ${what}, not exported conversations. ${advice}`);
  return readText(textOf(bytes));
}

/** How files begin that are mistaken for exports. */
const foreign: [magic: string, what: string][] = [
  ["GGUF", "a model (GGUF)"],
  ["\x1f\x8b", "packed with gzip"],
  ["%PDF", "a PDF document"],
  ["\x89PNG", "a picture"],
  ["\xff\xd8\xff", "a picture"],
  ["<!", "a web page"],
  ["<html", "a web page"],
];

function begins(bytes: Uint8Array, magic: string): boolean {
  return magic.split("").every((c, i) => bytes[i] === c.charCodeAt(0));
}

function textOf(bytes: Uint8Array): string {
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch {
    // not UTF-8
  }
  return refuse(`The file is not a text in UTF-8. ${advice}`);
}

/** The texts in an archive that can hold conversations. Its directory says how large each is, and no more is unpacked. */
function unpacked(bytes: Uint8Array): [name: string, text: string][] {
  let size = 0;
  let files: Record<string, Uint8Array>;
  const take = ({ name, originalSize }: { name: string; originalSize: number }) => /\.jsonl?$/i.test(name) && (size += originalSize) <= largest;
  try {
    files = unzipSync(bytes, { filter: take });
  } catch {
    return refuse("The archive is damaged or not whole. Export the conversations again.");
  }
  if (size > largest) refuse("The archive unpacks to more than 200 MiB, the most that is read.");
  return Object.entries(files).map(([name, data]) => [name, textOf(data)]);
}

/** The conversations of an archive's files. */
function joined(files: [name: string, text: string][]): Imported {
  if (files.length === 0) refuse(`The archive holds no file of conversations. ${advice}`);
  const all: Imported = { conversations: [], notes: [] };
  for (const [name, text] of files) {
    try {
      const one = readText(text);
      all.conversations.push(...one.conversations);
      all.notes.push(...one.notes);
    } catch (failure) {
      throw new Error(`${name}: ${(failure as Error).message}`);
    }
  }
  return { ...all, notes: [...new Set(all.notes)] };
}

function readText(text: string): Imported {
  if (text.trim() === "") refuse("The file is empty.");
  const lines = sessionsOf(text);
  if (lines) return readSessions(lines);
  let doc: unknown;
  try {
    doc = JSON.parse(text);
  } catch (failure) {
    if (!/^\s*[[{]/.test(text)) refuse(`The file is not JSON. ${advice}`);
    refuse(`The file is damaged or breaks off (${(failure as Error).message}). Export the conversations again.`);
  }
  if (isObject(doc) && typeof doc.format === "string" && doc.format.startsWith(exportFormat)) return readOwn(doc);
  const sessions = sessionsIn(doc);
  if (sessions) return readSessions(sessions);
  return refuse(`${nameOf(doc)} ${advice}`);
}

function readOwn(doc: Record<string, unknown>): Imported {
  const version = Number((doc.format as string).slice(exportFormat.length));
  if (version !== exportVersion) {
    refuse(
      version > exportVersion
        ? "A newer version of this page exported the file. Import it there, or update PowerInfer."
        : `The file has the format ${shown(doc.format)}, which does not exist. ${advice}`,
    );
  }
  if (!Array.isArray(doc.conversations)) refuse("The file has no list of conversations. Export them again.");
  if (doc.conversations.length === 0) refuse("The file holds no conversations.");
  const reader = new Reader((place, what) => refuse(`${place}: ${what}.`));
  const conversations = doc.conversations.map((c, i) => reader.conversation(c, `Conversation ${i + 1}`)!);
  const left = [...reader.unknown];
  const notes =
    left.length > 0 ? [`Left out what this version of the page does not know: ${left.slice(0, 5).join(", ")}${left.length > 5 ? "…" : ""}.`] : [];
  return { conversations, notes };
}

function readSessions(all: Session[]): Imported {
  const left = new Map<Left, number>();
  const reader = new Reader((place, what) => refuse(`${place}: ${what}.`));
  const conversations = all.map((s, i) => {
    const place = `Conversation ${i + 1}`;
    return reader.conversation(
      translated(s, left, (what) => refuse(`${place}: ${what}.`)),
      place,
    )!;
  });
  const told = [...left].map(([what, n]) => `${n} ${n === 1 ? what : plurals[what]}`);
  return { conversations, notes: told.length > 0 ? [`Left out, for this page has no place for them: ${told.join(", ")}.`] : [] };
}

/** Says what a document is that cannot be read. */
function nameOf(doc: unknown): string {
  const one = Array.isArray(doc) ? doc[0] : doc;
  if (Array.isArray(doc) && doc.length === 0) return "The file holds no conversations.";
  if (isObject(one)) {
    if (isObject(one.mapping)) return "The file is an export of ChatGPT, which this page does not read.";
    if (Array.isArray(one.chat_messages)) return "The file is an export of Claude, which this page does not read.";
    if (isObject(one.chat)) return "The file is an export of Open WebUI, which this page does not read.";
    if (Array.isArray(one.messages)) return "The file holds messages as OpenAI's API takes them, and not conversations.";
  }
  return "The file is JSON, but holds no conversations that this page knows.";
}
