import type { Call, Timings, Token, WireMessage } from "../api/chat";

/** A text file that goes before a message. */
export interface Attachment {
  name: string;
  text: string;
}

/** A message of a conversation, which is a tree: messages with the same parent are branches. Messages are never changed, but replaced. */
export interface Message {
  id: string;
  parent: string | null;
  role: "user" | "assistant" | "tool";
  content: string;
  reasoning?: string;
  calls?: Call[];
  callID?: string; // of a tool's message: the call that it answers
  attachments?: Attachment[];
  tokens?: Token[];
  timings?: Timings;
  finish?: string; // stop, length, tool_calls; stopped: by the user; error
  error?: string;
  model?: string;
  first?: string; // of an answer: the first message that the model was shown, where it was not the conversation's first
  created: number; // milliseconds
}

export interface Conversation {
  id: string;
  title: string;
  created: number;
  updated: number;
  messages: Record<string, Message>;
  chosen: Record<string, string>; // the branch shown below a message; below root: of the first
}

/** The key in Conversation.chosen of what has no parent. */
export const root = "root";

export function newConversation(): Conversation {
  const now = Date.now();
  return { id: newID(), title: "", created: now, updated: now, messages: {}, chosen: {} };
}

export function newID(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return Array.from(bytes, (b) => b.toString(36).padStart(2, "0")).join("");
}

/** The branches that begin with message m, in the order they were made. */
export function siblings(c: Conversation, m: Message): Message[] {
  return children(c, m.parent);
}

function children(c: Conversation, parent: string | null): Message[] {
  return Object.values(c.messages)
    .filter((m) => m.parent === parent)
    .sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
}

/** The messages that are shown: the chosen branch from its beginning. */
export function path(c: Conversation): Message[] {
  const all: Message[] = [];
  for (let parent: string | null = null; ;) {
    const next: Message[] = children(c, parent);
    const wanted: string | undefined = c.chosen[parent ?? root];
    const m: Message | undefined = next.find((n) => n.id === wanted) ?? next.at(-1);
    if (!m) return all;
    all.push(m);
    parent = m.id;
  }
}

/** c with a message put in, or replaced by its newer state, and chosen. */
export function withMessage(c: Conversation, m: Message): Conversation {
  return {
    ...c,
    updated: Date.now(),
    title: c.title || (m.role === "user" ? titleOf(m) : ""),
    messages: { ...c.messages, [m.id]: m },
    chosen: { ...c.chosen, [m.parent ?? root]: m.id },
  };
}

/** c with another branch shown. */
export function withBranch(c: Conversation, m: Message): Conversation {
  return { ...c, chosen: { ...c.chosen, [m.parent ?? root]: m.id } };
}

/** c without a message and all that follows it. */
export function withoutMessage(c: Conversation, m: Message): Conversation {
  const messages = { ...c.messages };
  const remove = (id: string) => {
    for (const child of children(c, id)) remove(child.id);
    delete messages[id];
  };
  remove(m.id);
  const chosen = Object.fromEntries(Object.entries(c.chosen).filter(([parent, id]) => messages[id] && (parent === root || messages[parent])));
  return { ...c, updated: Date.now(), messages, chosen };
}

const longestTitle = 60;

function titleOf(m: Message): string {
  const line = m.content.trim().split("\n", 1)[0] || m.attachments?.[0]?.name || "";
  return line.length > longestTitle ? `${line.slice(0, longestTitle - 1).trimEnd()}…` : line;
}

/** The messages as the server takes them. Thoughts of earlier answers are left out, as templates expect. */
export function wire(messages: Message[], system: string): WireMessage[] {
  const all: WireMessage[] = system.trim() ? [{ role: "system", content: system }] : [];
  for (const m of messages) {
    const out: WireMessage = { role: m.role, content: textOf(m) };
    if (m.calls?.length) out.tool_calls = m.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } }));
    if (m.callID) out.tool_call_id = m.callID;
    all.push(out);
  }
  return all;
}

/** A message's text with its files before it, each between fences longer than any in it. */
function textOf(m: Message): string {
  const files = (m.attachments ?? []).map(({ name, text }) => {
    const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), (run) => run[0].length));
    const fence = "`".repeat(longest + 1);
    return `${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}\n\n`;
  });
  return files.join("") + m.content;
}

/** A file's conversations, or an error that says what is wrong. Nothing in the file is trusted. */
export function parseExport(text: string): Conversation[] {
  let doc: any;
  try {
    doc = JSON.parse(text);
  } catch {
    throw new Error("The file is not JSON. Choose one that this page exported.");
  }
  if (doc?.format !== exportFormat || !Array.isArray(doc.conversations)) {
    throw new Error("The file does not hold conversations. Choose one that this page exported.");
  }
  return doc.conversations.map(readConversation);
}

const exportFormat = "powerinfer-conversations-1";

export function exportText(conversations: Conversation[]): string {
  return JSON.stringify({ format: exportFormat, conversations }, null, 1);
}

function readConversation(c: any): Conversation {
  const messages: Record<string, Message> = {};
  for (const m of Object.values<any>(c?.messages ?? {})) {
    if (typeof m?.id !== "string" || typeof m.content !== "string" || !["user", "assistant", "tool"].includes(m.role)) {
      throw new Error("The file holds a message that cannot be read, so nothing was imported. Export the conversations again.");
    }
    messages[m.id] = {
      id: m.id,
      parent: typeof m.parent === "string" ? m.parent : null,
      role: m.role,
      content: m.content,
      reasoning: text(m.reasoning),
      calls: list(m.calls)?.map((k) => ({ id: String(k?.id), name: String(k?.name), arguments: String(k?.arguments) })),
      callID: text(m.callID),
      attachments: list(m.attachments)?.map((a) => ({ name: String(a?.name), text: String(a?.text) })),
      finish: text(m.finish),
      error: text(m.error),
      model: text(m.model),
      first: text(m.first),
      timings: typeof m.timings?.predicted_n === "number" ? m.timings : undefined,
      created: Number(m.created) || Date.now(),
    };
  }
  for (const m of Object.values(messages)) {
    const seen = new Set<string>();
    for (let at: Message | undefined = m; at; at = at.parent === null ? undefined : messages[at.parent]) {
      if (seen.has(at.id) || (at.parent !== null && !messages[at.parent]))
        throw new Error("The file holds a message without a beginning, so nothing was imported. Export the conversations again.");
      seen.add(at.id);
    }
  }
  const chosen = Object.fromEntries(Object.entries(c?.chosen ?? {}).filter(([, id]) => typeof id === "string" && messages[id])) as Record<
    string,
    string
  >;
  const created = Number(c?.created) || Date.now();
  return { id: text(c?.id) ?? newID(), title: text(c?.title) ?? "", created, updated: Number(c?.updated) || created, messages, chosen };
}

const text = (v: unknown) => (typeof v === "string" ? v : undefined);
const list = (v: unknown) => (Array.isArray(v) ? (v as any[]) : undefined);
