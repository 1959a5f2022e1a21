import { defined, isObject, isTime, longestName, picture, shown } from "./check";
import { root } from "./conversation";

// What llama-server's page exports. It writes a conversation as lines of JSON: one of type session, then one of type message for each message.
// Several are an archive of such files. Until June 2026 it wrote {"conv": …, "messages": […]}, or a list of these. Messages form a tree below one of
// type root. Its first page, until 2025, had no branches: {"id": "conv-…", "messages": […]}.

type Fields = Record<string, unknown>;

/** A conversation as it is in the file. */
export interface Session {
  conv: Fields;
  messages: unknown[];
}

/** The conversations of a text of JSON lines that begins with a session; null where it is none. */
export function sessionsOf(text: string): Session[] | null {
  if (!/^\s*\{[^\n]*"type"\s*:\s*"session"/.test(text.slice(0, 1 << 16))) return null;
  const all: Session[] = [];
  for (const [i, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue;
    let record: unknown;
    try {
      record = JSON.parse(line);
    } catch {
      throw new Error(`Line ${i + 1} of the file is damaged or breaks off. Export the conversation again. Nothing was imported.`);
    }
    if (!isObject(record)) throw new Error(`Line ${i + 1} of the file is not a record of llama-server's page. Nothing was imported.`);
    if (record.type === "session") all.push({ conv: record, messages: [] });
    else if (record.type === "message") all.at(-1)?.messages.push(record.message);
  }
  return all;
}

/** The conversations of a document that llama-server's page wrote in one piece; null where it is none. */
export function sessionsIn(doc: unknown): Session[] | null {
  const all = Array.isArray(doc) ? doc : [doc];
  const is = (s: unknown) => isObject(s) && Array.isArray(s.messages) && (isObject(s.conv) || (typeof s.id === "string" && s.id.startsWith("conv-")));
  if (all.length === 0 || !all.some(is)) return null;
  return all.map((s: unknown, i) => {
    if (!is(s)) throw new Error(`Conversation ${i + 1}: it is not one. Nothing was imported.`);
    const { conv, messages } = s as Fields;
    return { conv: (conv ?? s) as Fields, messages: messages as unknown[] };
  });
}

/** What this page has no place for. */
export const plurals = {
  "system message": "system messages",
  "picture of an unknown kind": "pictures of an unknown kind",
  "file without a text": "files without a text",
};
export type Left = keyof typeof plurals;

/**
 * Turns a conversation of llama-server's page into one of this page's format, which is then checked like any other. left counts what has no place in
 * it. Fails with what is wrong where it cannot be turned at all.
 */
export function translated({ conv, messages }: Session, left: Map<Left, number>, no: (what: string) => never): Fields {
  const leave = (what: Left) => left.set(what, (left.get(what) ?? 0) + 1);
  const linear = !messages.some((m) => isObject(m) && m.parent !== undefined);
  const all = new Map<string, Fields>();
  const parents = new Map<string, string | null>();
  let before: string | null = null;
  for (const [i, m] of messages.entries()) {
    if (!isObject(m)) return no(`message ${i + 1} is not one`);
    const id = keyOf(m.id);
    if (id === null) return no(`message ${i + 1} has the id ${shown(m.id)}, which is not one`);
    if (parents.has(id)) return no(`message ${i + 1} has the id ${shown(m.id)}, which another has, too`);
    parents.set(id, linear ? before : keyOf(m.parent));
    before = id;
    if (m.type === "root") continue;
    if (m.role === "system") leave("system message");
    else
      all.set(
        id,
        message(id, m, leave, (what) => no(`message ${i + 1}: ${what}`)),
      );
  }
  for (const [id, m] of all) {
    let parent = parents.get(id) ?? null;
    for (const passed = new Set<string>(); parent !== null && !all.has(parent) && parents.has(parent); parent = parents.get(parent) ?? null) {
      if (passed.has(parent)) return no(`message ${shown(parent)} follows itself`);
      passed.add(parent);
    }
    m.parent = parent;
  }
  const times = [...all.values()].map((m) => m.created).filter(isTime); // others are complained of
  const updated = conv.lastModified ?? times.at(-1) ?? 0;
  const chosen: Fields = {};
  const seen = new Set<string>();
  for (let at = keyOf(conv.currNode); at !== null && !seen.has(at); at = parents.get(at) ?? null) {
    seen.add(at);
    const m = all.get(at);
    if (m) chosen[(m.parent as string | null) ?? root] = at;
  }
  const first = [...all.values()].find((m) => m.role === "user")?.content;
  const title = conv.name ?? (typeof first === "string" ? first.trim().split("\n", 1)[0] : "");
  return {
    id: conv.id,
    title: typeof title === "string" ? title.slice(0, longestName) : title,
    created: times[0] ?? updated,
    updated,
    messages: Object.fromEntries(all),
    chosen,
  };
}

/** Ids are texts; in the first page's conversations numbers, and −1 where a message has no parent. */
function keyOf(v: unknown): string | null {
  return typeof v === "string" && v !== "" ? v : typeof v === "number" && v >= 0 ? String(v) : null;
}

function message(id: string, m: Fields, leave: (what: Left) => void, no: (what: string) => never): Fields {
  const calls = m.role === "assistant" ? callsOf(m.toolCalls, no) : undefined;
  return defined<Fields>({
    id,
    role: m.role,
    content: m.content ?? "",
    reasoning: m.reasoningContent || m.thinking || undefined,
    calls,
    callID: m.toolCallId ?? undefined,
    ...files(m.extra, leave, no),
    timings: timings(m.timings),
    finish: m.role !== "assistant" ? undefined : calls ? "tool_calls" : "stop",
    model: m.model ?? undefined,
    created: m.timestamp ?? (isTime(m.id) ? m.id : 0),
  });
}

/** Calls are in OpenAI's form, in some versions as a text. */
function callsOf(v: unknown, no: (what: string) => never): unknown[] | undefined {
  let all = v || undefined;
  try {
    if (typeof all === "string") all = JSON.parse(all);
  } catch {
    return no("its toolCalls are not JSON");
  }
  if (all === undefined) return undefined;
  if (!Array.isArray(all)) return no("its toolCalls are not a list");
  const calls = all.map((c: unknown, i) => {
    const f = isObject(c) && isObject(c.function) ? c.function : {};
    return { id: isObject(c) && c.id ? c.id : `call_${i + 1}`, name: f.name, arguments: f.arguments ?? "" };
  });
  return calls.length > 0 ? calls : undefined;
}

/** The page keeps files that have a text, and pictures. */
function files(v: unknown, leave: (what: Left) => void, no: (what: string) => never): Fields {
  if (v !== undefined && v !== null && !Array.isArray(v)) return no("its extra is not a list");
  const attachments: unknown[] = [];
  const pictures: unknown[] = [];
  for (const e of v ?? []) {
    const shown = isObject(e) && picture({ name: e.name ?? "picture", url: e.base64Url });
    if (shown) pictures.push(shown);
    else if (isObject(e) && typeof e.content === "string") attachments.push({ name: e.name ?? "file", text: e.content });
    else leave(isObject(e) && typeof e.base64Url === "string" ? "picture of an unknown kind" : "file without a text");
  }
  return { attachments: attachments.length > 0 ? attachments : undefined, pictures: pictures.length > 0 ? pictures : undefined };
}

/** Speeds are not in the file. */
function timings(v: unknown): unknown {
  if (!isObject(v)) return undefined;
  const all: Fields = Object.fromEntries(Object.entries(v).filter(([, n]) => typeof n === "number"));
  for (const part of ["prompt", "predicted"]) {
    const [n, ms] = [all[`${part}_n`], all[`${part}_ms`]] as [number?, number?];
    if (n && ms) all[`${part}_per_second`] ??= (1000 * n) / ms;
  }
  return Object.keys(all).length > 0 ? all : undefined;
}
