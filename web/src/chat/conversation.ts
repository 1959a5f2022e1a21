import type { Call, Timings, Token, WireMessage, WirePart } from "../api/chat";

/** A text file that goes before a message. */
export interface Attachment {
  name: string;
  text: string;
}

/** A picture that the model is shown with a message. */
export interface Picture {
  name: string;
  url: string; // a data URI, which holds the file
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
  pictures?: Picture[];
  tokens?: Token[];
  timings?: Partial<Timings>;
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

/** Messages by their parents, of each state of a conversation: states are never changed. */
const families = new WeakMap<Conversation["messages"], Map<string | null, Message[]>>();

export function children(c: Conversation, parent: string | null): Message[] {
  let family = families.get(c.messages);
  if (!family) {
    family = new Map();
    for (const m of Object.values(c.messages)) {
      const branches = family.get(m.parent);
      if (branches) branches.push(m);
      else family.set(m.parent, [m]);
    }
    for (const branches of family.values()) branches.sort((a, b) => a.created - b.created || (a.id < b.id ? -1 : 1));
    families.set(c.messages, family);
  }
  return family.get(parent) ?? [];
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

/** m and all messages after it, in every branch. */
export function subtree(c: Conversation, m: Message): Set<string> {
  const ids = new Set([m.id]);
  for (const id of ids) for (const child of children(c, id)) ids.add(child.id); // a Set iterates over what is added, too
  return ids;
}

/**
 * A change of a conversation. Each tab shows what its own changes make of what it last read, and the same changes are made to what is stored
 * (Archive.change), which another tab may have changed meanwhile.
 */
export type Change = (c: Conversation) => Conversation;

/**
 * Adds a message after those of trail, from the first one on, and chooses the branch that leads to it. Messages of trail that another tab has deleted
 * meanwhile are put back: this one answers them.
 */
export function added(trail: Message[], m: Message): Change {
  return (c) => {
    const messages = { ...c.messages };
    const chosen = { ...c.chosen };
    for (const t of [...trail, m]) {
      messages[t.id] ??= t;
      chosen[t.parent ?? root] = t.id;
    }
    return { ...c, updated: Date.now(), title: c.title || (m.role === "user" ? titleOf(m) : ""), messages, chosen };
  };
}

/** Replaces a message by its newer state; nothing where it was deleted. */
export function replaced(m: Message): Change {
  return (c) => (c.messages[m.id] ? { ...c, updated: Date.now(), messages: { ...c.messages, [m.id]: m } } : c);
}

/** Removes the messages that the user saw when deleting, but for those that another tab has gone on from meanwhile. */
export function removed(ids: Set<string>): Change {
  return (c) => {
    const kept = new Set<string>();
    for (const m of Object.values(c.messages)) {
      if (ids.has(m.id)) continue;
      for (let at = m.parent; at !== null && ids.has(at) && !kept.has(at); at = c.messages[at]?.parent ?? null) kept.add(at);
    }
    const messages = Object.fromEntries(Object.entries(c.messages).filter(([id]) => !ids.has(id) || kept.has(id)));
    const chosen = Object.fromEntries(Object.entries(c.chosen).filter(([parent, id]) => messages[id] && (parent === root || messages[parent])));
    return { ...c, updated: Date.now(), messages, chosen };
  };
}

export function renamed(title: string): Change {
  return (c) => ({ ...c, title });
}

/** c with another branch shown. */
export function withBranch(c: Conversation, m: Message): Conversation {
  return { ...c, chosen: { ...c.chosen, [m.parent ?? root]: m.id } };
}

/**
 * The branches that a tab shows after another one has changed the conversation: its own, but for those chosen elsewhere since the tab last read them.
 * Branches that lead to a message of pinned stay: the user watches how it is written.
 */
export function followed(own: Conversation["chosen"], before: Conversation["chosen"], now: Conversation["chosen"], pinned: Set<string>) {
  const all = { ...now, ...own };
  for (const [parent, id] of Object.entries(now)) if (before[parent] !== id && !pinned.has(own[parent] ?? "")) all[parent] = id;
  return all;
}

const longestTitle = 60;

function titleOf(m: Message): string {
  const line = m.content.trim().split("\n", 1)[0] || m.attachments?.[0]?.name || m.pictures?.[0]?.name || "";
  return line.length > longestTitle ? `${line.slice(0, longestTitle - 1).trimEnd()}…` : line;
}

/**
 * The messages as the server takes them. Thoughts of earlier answers are left out, as templates expect. A model that does not see is told the names of
 * pictures.
 */
export function wire(messages: Message[], system: string, sees = true): WireMessage[] {
  const all: WireMessage[] = system.trim() ? [{ role: "system", content: system }] : [];
  for (const m of messages) {
    const out: WireMessage = { role: m.role, content: sees && m.pictures?.length ? partsOf(m, m.pictures) : textOf(m, m.pictures) };
    if (m.calls?.length) out.tool_calls = m.calls.map((c) => ({ id: c.id, type: "function", function: { name: c.name, arguments: c.arguments } }));
    if (m.callID) out.tool_call_id = m.callID;
    all.push(out);
  }
  return all;
}

/** Pictures come before the text: what the server has computed of them serves another question, too. */
function partsOf(m: Message, pictures: Picture[]): WirePart[] {
  const parts: WirePart[] = pictures.map(({ url }) => ({ type: "image_url", image_url: { url } }));
  const text = textOf(m);
  return text ? [...parts, { type: "text", text }] : parts;
}

/** A message's text with its files before it, each between fences longer than any in it, and the names of pictures. */
function textOf(m: Message, unseen: Picture[] = []): string {
  const names = unseen.map(({ name }) => `[picture: ${name}]\n`);
  const files = (m.attachments ?? []).map(({ name, text }) => {
    const longest = Math.max(2, ...Array.from(text.matchAll(/`+/g), (run) => run[0].length));
    const fence = "`".repeat(longest + 1);
    return `${name}:\n${fence}\n${text.replace(/\n$/, "")}\n${fence}\n\n`;
  });
  return [...names, ...files].join("") + m.content;
}
