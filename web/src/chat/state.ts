import { computed, signal } from "@preact/signals";
import { announce } from "../shell/announce";
import { Archive, isDeleted, type Entry, type Records, type Stored } from "./archive";
import { Reader } from "./check";
import {
  added,
  followed,
  newConversation,
  newID,
  path,
  removed,
  renamed,
  replaced,
  subtree,
  withBranch,
  type Attachment,
  type Change,
  type Conversation,
  type Message,
  type Picture,
} from "./conversation";
import { exportEnds, readFile } from "./imports";
import { merged, told, type Outcome } from "./merge";
import { model, whileLoading } from "./models";
import { answerWithin } from "./room";
import { ended, hearOf, run, runs, tellAll } from "./runs";
import { contextSize, fields, instructions, sees } from "./settings";
import { listen, tell, type News } from "./tabs";

/** What the user should know about where conversations are stored; empty where all is well. */
export const trouble = signal("");

const archive = new Archive((what) => (trouble.value = what));

export const entries = signal<Entry[]>([]);
export const current = signal<Conversation>(newConversation());

/** What went wrong, for the user to read; empty where nothing did. */
export const notice = signal("");

/** The answer in the making in the conversation shown. */
export const running = computed(() => runs.value.get(current.value.id));

/** The messages shown, the answer in the making as far as it is. */
export const shown = computed(() => {
  const live = running.value?.message.value;
  const all = path(current.value);
  const at = all.findIndex((m) => m.id === live?.id);
  return at < 0 ? all : all.with(at, { ...live!, parent: all[at]!.parent });
});

/** Changes that are not stored yet. */
interface Outbox {
  view: Conversation; // as it was before them
  changes: { of: string; make: Change }[];
  busy: Promise<void> | null; // it is storing them
}

/** By conversation. They stay here where storing them fails, are shown and exported, and are stored with the next change. */
const outbox = new Map<string, Outbox>();

/** Conversations that were deleted, here or in another tab. */
const deleted = new Set<string>();

/** The branches of the current conversation as they were stored when they were last read. */
let storedBranches: Conversation["chosen"] = {};

/**
 * Makes a change of conversation c, shows it and stores it. A change of something takes the place of an earlier one that is not stored yet. Returns
 * when it is stored, or could not be.
 */
async function change(c: Conversation, of: string, make: Change): Promise<void> {
  if (deleted.has(c.id)) return;
  if (c.id === current.value.id) current.value = make(current.value);
  const box = outbox.get(c.id) ?? { view: c, changes: [], busy: null };
  outbox.set(c.id, box);
  const entry = { of, make };
  const at = box.changes.findIndex((e) => e.of === of && !flying.has(e));
  if (at >= 0) box.changes[at] = entry;
  else box.changes.push(entry);
  await flush(c.id, box);
}

/** The changes that a transaction is storing. */
const flying = new Set<object>();

async function flush(id: string, box: Outbox): Promise<void> {
  box.busy ??= storeChanges(id, box).finally(() => (box.busy = null));
  await box.busy;
  await list().catch(() => {}); // what failed was said
}

async function storeChanges(id: string, box: Outbox): Promise<void> {
  try {
    while (box.changes.length > 0 && !deleted.has(id)) {
      const now = [...box.changes];
      now.forEach((e) => flying.add(e));
      const result = await archive
        .write(async (records): Promise<Stored> => {
          const before = await records.get(id);
          if (before && isDeleted(before)) return before;
          const c = now.reduce((c, { make }) => make(c), before ?? box.view);
          records.put(c);
          return c;
        })
        .finally(() => now.forEach((e) => flying.delete(e)));
      if (isDeleted(result)) {
        if (!deleted.has(id)) forget(id);
        break;
      }
      box.changes = box.changes.filter((e) => !now.includes(e));
      show(result);
      tell({ kind: "changed", ids: [id] });
    }
    outbox.delete(id);
  } catch (failure) {
    notice.value = `Not stored: ${(failure as Error).message}`;
  }
}

/** Stores what could not be stored before. */
async function flushAll(): Promise<void> {
  for (const [id, box] of [...outbox]) await flush(id, box);
}

const reader = new Reader(() => {});

/** What this tab shows of what is stored: with its own changes that are not stored yet. */
function viewOf(stored: Conversation | undefined, id: string): Conversation | null {
  const box = outbox.get(id);
  const c = stored ? reader.conversation(stored, "", id === current.value.id ? current.value.messages : undefined) : (box?.view ?? null);
  return c && (box?.changes ?? []).reduce((c, { make }) => make(c), c);
}

/** Shows what is stored of the current conversation, if this is it. */
function show(stored: Conversation): void {
  if (stored.id !== current.value.id) return;
  const now = viewOf(stored, stored.id);
  if (!now) return;
  const r = running.value;
  const way = new Set<string>();
  if (r && !r.elsewhere) for (const m of path(current.value)) way.add(m.id);
  const chosen = followed(current.value.chosen, storedBranches, stored.chosen, way);
  storedBranches = stored.chosen;
  current.value = { ...now, chosen };
  if (r && !r.elsewhere && !now.messages[r.message.peek().id]) {
    r.stop();
    notice.value = "The answer was deleted in another tab.";
  }
}

/** Ends what this tab does with a conversation that another tab has deleted. */
function forget(id: string): void {
  deleted.add(id);
  outbox.delete(id);
  unlist(id);
  const r = runs.value.get(id);
  if (r && !r.elsewhere) r.stop();
  if (id !== current.value.id) return;
  begin();
  notice.value = "Another tab has deleted the conversation that was here.";
}

/** Reads the current conversation again. */
async function reread(): Promise<void> {
  const id = current.value.id;
  const stored = await archive.get(id);
  if (!stored || id !== current.value.id) return;
  if (isDeleted(stored)) forget(id);
  else show(stored);
}

/** Answers of other tabs that came at the time of one of this tab, in the same conversation. */
const both = new Set<string>();

async function hear(news: News, from: string): Promise<void> {
  switch (news.kind) {
    case "changed":
      for (const id of news.ids) deleted.delete(id);
      if (news.ids.includes(current.value.id)) await reread();
      return list();
    case "removed":
      forget(news.id);
      return list();
    case "answering":
      if (hearOf(news, from) && news.id === current.value.id && !both.has(news.message.id)) {
        both.add(news.message.id);
        notice.value =
          "Another tab has the model answer in this conversation, too. Both answers stay: the arrows below a message change between branches.";
      }
      return;
    case "answered":
      if (news.id === current.value.id) await reread();
      return ended(news.id, news.message);
    case "stop": {
      const r = runs.value.get(news.id);
      if (r && !r.elsewhere) r.stop();
      return;
    }
    case "who":
      return tellAll();
  }
}

/** Shows the list and the conversation that the address names, and follows what other tabs do. */
export async function start(): Promise<void> {
  const failed = (failure: unknown) => void (notice.value = (failure as Error).message);
  addEventListener("hashchange", () => void follow().catch(failed));
  addEventListener("pageshow", (e) => e.persisted && void Promise.all([reread(), list()]).catch(failed)); // it heard nothing while it was away
  addEventListener("beforeunload", (e) => [...outbox.values()].some((box) => !box.busy) && e.preventDefault());
  listen((news, from) => void hear(news, from).catch(failed));
  await Promise.all([list(), follow()]).catch(failed);
}

let lists = 0; // how often the list was asked for

export async function list(): Promise<void> {
  const n = ++lists;
  const all = await archive.entries();
  if (n !== lists) return; // a newer one comes
  for (const id of outbox.keys()) {
    if (all.some((e) => e.id === id)) continue;
    const c = viewOf(undefined, id);
    if (c) all.unshift({ id, title: c.title, updated: c.updated });
  }
  entries.value = all;
}

function unlist(id: string): void {
  lists++; // what is being read may still have it
  entries.value = entries.value.filter((e) => e.id !== id);
}

export function begin(): void {
  leave();
  current.value = newConversation();
  storedBranches = {};
  location.hash = "";
}

function leave(): void {
  notice.value = "";
}

const addressed = () => location.hash.replace(/^#\/?/, "");

/** Shows the conversation that the address names, or a new one. */
async function follow(): Promise<void> {
  const id = addressed();
  if (id === current.value.id || (id === "" && Object.keys(current.value.messages).length === 0)) return;
  const stored = id ? await archive.get(id) : undefined;
  if (id !== addressed()) return;
  const found = stored && isDeleted(stored) ? null : viewOf(stored, id);
  if (!found) return begin();
  leave();
  storedBranches = found.chosen;
  current.value = found;
}

export async function remove(id: string): Promise<void> {
  deleted.add(id); // what its answer still stores comes too late
  runs.value.get(id)?.stop();
  try {
    await archive
      .write(async (records) => records.put({ id, deleted: Date.now() }))
      .catch(() => archive.write(async (records) => records.remove(id))); // there may be no room for the mark
  } catch (failure) {
    deleted.delete(id);
    notice.value = `Not deleted: ${(failure as Error).message}`;
    return;
  }
  outbox.delete(id);
  unlist(id);
  tell({ kind: "removed", id });
  if (id === current.value.id) begin();
  await flushAll();
  await list();
}

export async function rename(id: string, title: string): Promise<void> {
  const c = id === current.value.id ? current.value : viewOf(conversationOf(await archive.get(id)), id);
  if (c && title.trim()) await change(c, "title", renamed(title.trim()));
}

function conversationOf(s: Stored | undefined): Conversation | undefined {
  return s && !isDeleted(s) ? s : undefined;
}

export function showBranch(m: Message): void {
  current.value = withBranch(current.value, m);
}

/** The messages before a new one below parent. */
function trail(c: Conversation, parent: string | null): Message[] {
  const all: Message[] = [];
  for (let m = parent === null ? undefined : c.messages[parent]; m; m = m.parent === null ? undefined : c.messages[m.parent]) all.unshift(m);
  return all;
}

function add(m: Message): void {
  const c = current.value;
  void change(c, `new ${m.id}`, added(trail(c, m.parent), m));
}

/** Sends a message behind parent and has it answered. */
export function say(content: string, attachments: Attachment[], pictures: Picture[], parent = shown.value.at(-1)?.id ?? null): void {
  const m: Message = { id: newID(), parent, role: "user", content, created: Date.now() };
  if (attachments.length > 0) m.attachments = attachments;
  if (pictures.length > 0) m.pictures = pictures;
  add(m);
  location.hash = `#/${current.value.id}`;
  respond(m.id);
}

/** Hands a tool's result to the model. */
export function giveResult(answer: Message, results: { id: string; result: string }[]): void {
  let parent = answer.id;
  for (const { id, result } of results) {
    const m: Message = { id: newID(), parent, role: "tool", content: result, callID: id, created: Date.now() };
    add(m);
    parent = m.id;
  }
  respond(parent);
}

/** Has the message before an answer answered once more, in a branch of its own. */
export function retry(answer: Message): void {
  respond(answer.parent);
}

/** Has an answer that was cut off go on. */
export function goOn(answer: Message): void {
  const { finish: _, error: __, ...rest } = answer;
  request(rest.content ? rest : { ...rest, reasoning: undefined, tokens: undefined });
}

/** Says something else in the place of m. An answer that is changed is not answered. */
export function edit(m: Message, content: string): void {
  if (m.role === "user") return say(content, m.attachments ?? [], m.pictures ?? [], m.parent);
  add({ ...m, id: newID(), content, tokens: undefined, timings: undefined, created: Date.now() });
}

export function discard(m: Message): void {
  const c = current.value;
  const ids = subtree(c, m);
  void change(c, `without ${m.id}`, removed(ids)).then(() => {
    if (c.id === current.value.id && current.value.messages[m.id]) notice.value = "The message stays: another tab has gone on from it meanwhile.";
  });
}

function respond(parent: string | null): void {
  request({ id: newID(), parent, role: "assistant", content: "", model: model.value?.id, created: Date.now() });
}

function request(message: Message): void {
  const { id } = current.value;
  if (runs.value.has(id)) return;
  notice.value = "";
  let chosen: Record<string, unknown>;
  try {
    chosen = fields();
  } catch (failure) {
    notice.value = (failure as Error).message;
    return;
  }
  const before = current.value;
  if (before.messages[message.id]) void change(before, message.id, replaced(message));
  else add(message);
  const c = current.value;
  const asked = message.content ? [...trail(c, message.parent), message] : trail(c, message.parent);
  announce("The model answers.");
  if (model.value?.status !== "loaded") whileLoading();
  const question = {
    fields: { ...chosen, model: message.model },
    system: instructions.value.system,
    messages: asked,
    sees: message.model !== model.value?.id || sees.value !== false,
    from: asked.findLast((m) => m.role === "assistant" && m.id !== message.id)?.first,
    context: message.model === model.value?.id ? contextSize.value : 0,
  };
  const ask = (abort: AbortSignal) => answerWithin(question, abort);
  void run(id, message, ask, (m) => change(id === current.value.id ? current.value : c, m.id, replaced(m)));
}

export function stop(): void {
  running.value?.stop();
}

/** Stores the conversations of a file, all of them or none, and returns what came of it in a sentence. What is stored stays. */
export async function importFile(file: File): Promise<string> {
  const { conversations, notes } = await readFile(file);
  await flushAll(); // so that what is imported meets all that is here
  const ids: string[] = [];
  const store = async (records: Records) => {
    const all: Outcome[] = [];
    for (const c of conversations) {
      const { outcome, conversation } = await merged(c, async (id) => conversationOf(await records.get(id)), newID);
      if (conversation) {
        records.put(conversation);
        ids.push(conversation.id);
      }
      all.push(outcome);
    }
    return all;
  };
  const outcomes = await archive.write(store).catch((failure) => {
    throw new Error(`${(failure as Error).message} Nothing was imported.`);
  });
  for (const id of ids) deleted.delete(id);
  tell({ kind: "changed", ids });
  await Promise.all([list(), ids.includes(current.value.id) && reread()]);
  return told(outcomes, notes);
}

/** Lets the browser save all conversations, or one, as a file. */
export async function exportFile(id?: string): Promise<void> {
  const parts: string[] = [];
  const put = (c: Conversation | null | undefined) => c && (!id || c.id === id) && parts.push(JSON.stringify(c, null, 1));
  const unstored = new Map(outbox);
  try {
    await archive.each((c) => {
      const box = unstored.get(c.id);
      unstored.delete(c.id);
      put((box?.changes ?? []).reduce((c, { make }) => make(c), c));
    });
  } catch (failure) {
    notice.value = (failure as Error).message; // and what this tab has is exported
    if (!unstored.has(current.value.id)) put(current.value);
  }
  for (const unsaved of unstored.keys()) put(viewOf(undefined, unsaved));
  if (parts.length === 0) return;
  const [begin, end] = exportEnds;
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([begin, ...parts.flatMap((p, i) => (i > 0 ? [",\n", p] : [p])), end], { type: "application/json" }));
  link.download = `powerinfer-${id ? "conversation" : "conversations"}-${new Date().toISOString().slice(0, 10)}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
