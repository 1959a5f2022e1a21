import { children, path, root, type Conversation, type Message } from "./conversation";

/** What came of a conversation that was imported. */
export type Outcome = "imported" | "merged" | "here";

/**
 * Puts an imported conversation to what is stored: get returns the conversation of an id. What is stored stays as it is; messages that it lacks are
 * added. A message that is stored in another form is added as a branch. The result is null where nothing is added.
 */
export async function merged(
  c: Conversation,
  get: (id: string) => Promise<Conversation | undefined>,
  newID: () => string,
): Promise<{ outcome: Outcome; conversation: Conversation | null }> {
  for (let n = 1; ; n++) {
    const id = n === 1 ? c.id : `${c.id}-${n}`; // another conversation has the id: the import's next one is the same each time
    const stored = await get(id);
    if (!stored) return { outcome: "imported", conversation: { ...c, id } };
    const related =
      Object.keys(c.messages).length === 0 ||
      Object.keys(stored.messages).length === 0 ||
      Object.keys(c.messages).some((m) => Object.hasOwn(stored.messages, m));
    if (!related && !alike(stored, c)) continue;
    const conversation = union(stored, c, newID);
    return { outcome: conversation ? "merged" : "here", conversation };
  }
}

/** Whether both begin with the same message, under other ids. */
function alike(a: Conversation, b: Conversation): boolean {
  return children(a, null).some((m) => children(b, null).some((o) => same(m, o)));
}

/** stored with the messages of c that it lacks; null where it lacks none. */
function union(stored: Conversation, c: Conversation, newID: () => string): Conversation | null {
  const messages = { ...stored.messages };
  const here = new Map<string | null, string | null>([[null, null]]); // where messages of c are in the result
  const chosen: Conversation["chosen"] = {};
  let added = 0;
  const parents: (string | null)[] = [null];
  for (const parent of parents) {
    for (const m of children(c, parent)) {
      const at = here.get(parent)!;
      const known = find(stored, m, at);
      here.set(m.id, known?.id ?? (Object.hasOwn(messages, m.id) ? newID() : m.id));
      if (!known) {
        messages[here.get(m.id)!] = { ...m, id: here.get(m.id)!, parent: at };
        added++;
      }
      parents.push(m.id);
    }
  }
  if (added === 0) return null;
  for (const m of path(c)) chosen[here.get(m.parent) ?? root] = here.get(m.id)!;
  return {
    ...stored,
    title: stored.title || c.title,
    created: Math.min(stored.created, c.created),
    updated: Math.max(stored.updated, c.updated),
    messages,
    chosen: { ...chosen, ...stored.chosen },
  };
}

/** The message of stored below parent that is m: in the same form, or in a later one. */
function find(stored: Conversation, m: Message, parent: string | null): Message | undefined {
  const own = Object.hasOwn(stored.messages, m.id) ? stored.messages[m.id] : undefined;
  if (own && own.parent === parent && (same(own, m) || goesOn(own, m))) return own;
  return children(stored, parent).find((o) => same(o, m));
}

function same(a: Message, b: Message): boolean {
  const said = ({ role, content, reasoning, calls, callID, attachments, pictures = [] }: Message) =>
    JSON.stringify([role, content, reasoning || null, calls ?? [], callID ?? null, attachments ?? [], pictures.map((p) => p.name)]);
  return said(a) === said(b) && (a.pictures ?? []).every((p, i) => p.url === b.pictures![i]!.url);
}

/** Whether a is b, gone on since b was exported. */
function goesOn(a: Message, b: Message): boolean {
  return (
    a.role === "assistant" &&
    b.role === "assistant" &&
    a.content.startsWith(b.content) &&
    (a.reasoning ?? "").startsWith(b.reasoning ?? "") &&
    (a.calls?.length ?? 0) >= (b.calls?.length ?? 0)
  );
}

/** Says what came of an import. */
export function told(outcomes: Outcome[], notes: string[]): string {
  const count = (o: Outcome) => outcomes.filter((x) => x === o).length;
  const [imported, merged, here] = [count("imported"), count("merged"), count("here")];
  const parts = [];
  const conversations = (n: number) => (parts.length > 0 ? `${n}` : n === 1 ? "1 conversation" : `${n} conversations`);
  if (imported > 0) parts.push(`${conversations(imported)} imported`);
  if (merged > 0) parts.push(`${conversations(merged)} merged`);
  if (here > 0) parts.push(`${conversations(here)} ${here === 1 ? "was" : "were"} already here`);
  return [`${parts.join(", ")}.`, ...notes].join(" ");
}
