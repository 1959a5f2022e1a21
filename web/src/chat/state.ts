import { computed, signal } from "@preact/signals";
import { announce } from "../shell/announce";
import { Archive, type Entry } from "./archive";
import {
  exportText,
  newConversation,
  newID,
  parseExport,
  path,
  withMessage,
  withoutMessage,
  type Attachment,
  type Conversation,
  type Message,
} from "./conversation";
import { model, whileLoading } from "./models";
import { answerWithin } from "./room";
import { run, runs } from "./runs";
import { contextSize, fields, instructions } from "./settings";

const archive = new Archive();

export const entries = signal<Entry[]>([]);
export const current = signal<Conversation>(newConversation());

/** What went wrong, for the user to read; empty where nothing did. */
export const notice = signal("");

/** The answer in the making in the conversation shown. */
export const running = computed(() => runs.value[current.value.id]);

/** The messages shown, the answer in the making as far as it is. */
export const shown = computed(() => {
  const live = running.value?.message.value;
  return path(current.value).map((m) => (m.id === live?.id ? live : m));
});

/** What of other conversations has changed since they were read: answers that go on in the background. */
const background = new Map<string, Conversation>();

async function keep(c: Conversation): Promise<void> {
  if (c.id === current.value.id) current.value = c;
  else background.set(c.id, c);
  try {
    await archive.put(c);
    await list();
  } catch (failure) {
    notice.value = `The browser could not keep the conversation: ${(failure as Error).message} Export what matters, and delete what does not.`;
  }
}

export async function list(): Promise<void> {
  entries.value = await archive.entries();
}

export function begin(): void {
  leave();
  current.value = newConversation();
  location.hash = "";
}

function leave(): void {
  notice.value = "";
  if (running.value) background.set(current.value.id, current.value);
}

/** Shows the conversation that the address names, or a new one. */
export async function follow(): Promise<void> {
  const id = location.hash.replace(/^#\/?/, "");
  if (id === current.value.id || (id === "" && Object.keys(current.value.messages).length === 0)) return;
  const found = background.get(id) ?? (id ? await archive.get(id) : undefined);
  if (!found) return begin();
  leave();
  background.delete(id);
  current.value = found;
}

export async function remove(id: string): Promise<void> {
  runs.value[id]?.stop();
  await archive.remove(id);
  await list();
  if (id === current.value.id) begin();
}

export async function rename(id: string, title: string): Promise<void> {
  const c = id === current.value.id ? current.value : await archive.get(id);
  if (c && title.trim()) await keep({ ...c, title: title.trim() });
}

/** Sends a message behind parent and has it answered. */
export function say(content: string, attachments: Attachment[], parent = shown.value.at(-1)?.id ?? null): void {
  const m: Message = {
    id: newID(),
    parent,
    role: "user",
    content,
    attachments: attachments.length > 0 ? attachments : undefined,
    created: Date.now(),
  };
  const c = withMessage(current.value, m);
  current.value = c;
  location.hash = `#/${c.id}`;
  respond(c, m.id);
}

/** Hands a tool's result to the model. */
export function giveResult(answer: Message, results: { id: string; result: string }[]): void {
  let c = current.value;
  let parent = answer.id;
  for (const { id, result } of results) {
    const m: Message = { id: newID(), parent, role: "tool", content: result, callID: id, created: Date.now() };
    c = withMessage(c, m);
    parent = m.id;
  }
  respond(c, parent);
}

/** Has the message before an answer answered once more, in a branch of its own. */
export function retry(answer: Message): void {
  respond(current.value, answer.parent);
}

/** Has an answer that was cut off go on. */
export function goOn(answer: Message): void {
  const { finish: _, error: __, ...rest } = answer;
  request(current.value, rest.content ? rest : { ...rest, reasoning: undefined, tokens: undefined });
}

/** Says something else in the place of m. An answer that is changed is not answered. */
export function edit(m: Message, content: string): void {
  if (m.role === "user") return say(content, m.attachments ?? [], m.parent);
  void keep(withMessage(current.value, { ...m, id: newID(), content, tokens: undefined, timings: undefined, created: Date.now() }));
}

export function discard(m: Message): void {
  void keep(withoutMessage(current.value, m));
}

function respond(c: Conversation, parent: string | null): void {
  request(c, { id: newID(), parent, role: "assistant", content: "", model: model.value?.id, created: Date.now() });
}

function request(c: Conversation, message: Message): void {
  if (runs.value[c.id]) return;
  notice.value = "";
  c = withMessage(c, message);
  const asked = path(c).slice(0, message.content ? undefined : -1);
  let chosen: Record<string, unknown>;
  try {
    chosen = fields();
  } catch (failure) {
    notice.value = (failure as Error).message;
    return;
  }
  void keep(c);
  announce("The model answers.");
  if (model.value?.status !== "loaded") whileLoading();
  const question = {
    fields: { ...chosen, model: message.model },
    system: instructions.value.system,
    messages: asked,
    from: asked.findLast((m) => m.role === "assistant" && m.id !== message.id)?.first,
    context: message.model === model.value?.id ? contextSize.value : 0,
  };
  const ask = (abort: AbortSignal) => answerWithin(question, abort);
  void run(c.id, message, ask, (m) => {
    const now = c.id === current.value.id ? current.value : (background.get(c.id) ?? c);
    if (now.messages[m.id]) void keep({ ...now, updated: Date.now(), messages: { ...now.messages, [m.id]: m } });
  });
}

export function stop(): void {
  running.value?.stop();
}

export async function importFile(file: File): Promise<number> {
  const all = parseExport(await file.text());
  for (const c of all) await archive.put(c);
  await list();
  return all.length;
}

/** Lets the browser save all conversations, or one, as a file. */
export async function exportFile(id?: string): Promise<void> {
  const all = (await archive.all()).filter((c) => !id || c.id === id);
  const link = document.createElement("a");
  link.href = URL.createObjectURL(new Blob([exportText(all)], { type: "application/json" }));
  link.download = `powerinfer-${id ? "conversation" : "conversations"}-${new Date().toISOString().slice(0, 10)}.json`;
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
