import type { Call, Likely, Timings, Token } from "../api/chat";
import { root, type Attachment, type Conversation, type Message, type Picture } from "./conversation";

/** Called where something does not fit, with its place and what is wrong. Where it returns, the reader goes on without. */
export type Complain = (place: string, what: string) => void;

type Fields = Record<string, unknown>;

export const isObject = (v: unknown): v is Fields => typeof v === "object" && v !== null && !Array.isArray(v);

/** The latest time of a Date, in milliseconds. */
const latest = 8.64e15;

export const isTime = (v: unknown): v is number => typeof v === "number" && v >= 0 && v <= latest;

/** In UTF-16 units. */
export const longestName = 1000;

/** Ids are keys of objects: names that every object has, such as __proto__, are none. */
export function isID(v: unknown): v is string {
  return typeof v === "string" && /^[\w.:-]{1,128}$/.test(v) && v !== root && !(v in Object.prototype);
}

const roles = ["user", "assistant", "tool"];
const conversationFields = ["id", "title", "created", "updated", "messages", "chosen"];
const messageFields = "id parent role content reasoning calls callID attachments pictures tokens timings finish error model first created".split(" ");

/**
 * Reads conversations field by field, since neither a file nor what is stored is trusted. Fields that it does not know are left out, and their names
 * collected.
 */
export class Reader {
  readonly unknown = new Set<string>();

  constructor(private readonly complain: Complain) {}

  /** v as a conversation; null where it is none. Messages of before that v has, too, are not read again. */
  conversation(v: unknown, place: string, before?: Conversation["messages"]): Conversation | null {
    if (!isObject(v)) return this.no(place, "it is not a conversation");
    if (!isID(v.id)) return this.no(place, `its id is ${shown(v.id)}, which is not one`);
    if (typeof v.title !== "string" || v.title.length > longestName)
      this.complain(place, `its title is not a text of up to ${longestName} characters`);
    else if (v.title) place += ` (“${v.title.slice(0, 40)}”)`;
    this.names(v, conversationFields);
    for (const field of ["created", "updated"])
      if (!isTime(v[field])) this.complain(place, `its ${field} is ${shown(v[field])}, which is not a time`);
    const messages: Conversation["messages"] = {};
    if (!isObject(v.messages)) this.complain(place, "it has no messages");
    let n = 0;
    for (const [key, value] of isObject(v.messages) ? Object.entries(v.messages) : []) {
      const at = `${place}, message ${++n}`;
      const known = before && Object.hasOwn(before, key) ? before[key] : undefined;
      const m = known && sameState(known, value) ? known : this.message(value, at);
      if (!m) continue;
      if (m.id === key) messages[key] = m;
      else this.complain(at, `it is called ${shown(key)} and has the id ${shown(m.id)}`);
    }
    this.tree(messages, place);
    const chosen = Object.fromEntries(
      Object.entries(this.object(v.chosen ?? {}, place, "chosen")).filter(
        ([parent, id]) => typeof id === "string" && Object.hasOwn(messages, id) && (messages[id]!.parent ?? root) === parent,
      ),
    ) as Conversation["chosen"];
    const updated = isTime(v.updated) ? v.updated : 0;
    return {
      id: v.id,
      title: typeof v.title === "string" ? v.title : "",
      created: isTime(v.created) ? v.created : updated,
      updated,
      messages,
      chosen,
    };
  }

  message(v: unknown, place: string): Message | null {
    if (!isObject(v)) return this.no(place, "it is not a message");
    if (!isID(v.id)) return this.no(place, `its id is ${shown(v.id)}, which is not one`);
    if (v.parent !== null && v.parent !== undefined && !isID(v.parent)) return this.no(place, `its parent is ${shown(v.parent)}, which is not an id`);
    if (typeof v.role !== "string" || !roles.includes(v.role)) return this.no(place, `its role is ${shown(v.role)}, not user, assistant or tool`);
    if (typeof v.content !== "string") return this.no(place, "its content is not a text");
    if (!isTime(v.created)) this.complain(place, `its created is ${shown(v.created)}, which is not a time`);
    this.names(v, messageFields);
    return defined<Message>({
      id: v.id,
      parent: v.parent ?? null,
      role: v.role as Message["role"],
      content: v.content,
      reasoning: this.text(v.reasoning, place, "reasoning"),
      calls: this.list<Call>(v.calls, place, "calls", (c) => texts(c, ["id", "name", "arguments"])),
      callID: this.text(v.callID, place, "callID"),
      attachments: this.list<Attachment>(v.attachments, place, "attachments", (a) => texts(a, ["name", "text"])),
      pictures: this.list<Picture>(v.pictures, place, "pictures", picture),
      tokens: this.list<Token>(v.tokens, place, "tokens", token),
      timings: this.timings(v.timings, place),
      finish: this.text(v.finish, place, "finish"),
      error: this.text(v.error, place, "error"),
      model: this.text(v.model, place, "model"),
      first: this.text(v.first, place, "first"),
      created: isTime(v.created) ? v.created : 0,
    });
  }

  /** Every message has a beginning: its parents are there and do not go round in a circle. */
  private tree(messages: Conversation["messages"], place: string): void {
    const begins = new Set<string>();
    for (const m of Object.values(messages)) {
      const way = new Set<string>();
      for (let at = m; !begins.has(at.id); at = messages[at.parent!]!) {
        way.add(at.id);
        if (at.parent === null) break;
        if (!Object.hasOwn(messages, at.parent)) this.complain(place, `message ${shown(at.id)} follows ${shown(at.parent)}, which is not there`);
        else if (way.has(at.parent)) this.complain(place, `message ${shown(at.id)} follows itself`);
        else continue;
        messages[at.id] = { ...at, parent: null };
        break;
      }
      for (const id of way) begins.add(id);
    }
  }

  private timings(v: unknown, place: string): Partial<Timings> | undefined {
    if (v === undefined) return undefined;
    const all = Object.entries(this.object(v, place, "timings"));
    const fits = all.filter(([name, n]) => /^\w{1,64}$/.test(name) && !(name in Object.prototype) && typeof n === "number" && n >= 0 && n <= latest);
    if (fits.length < all.length) this.complain(place, "its timings are not all numbers");
    return Object.fromEntries(fits);
  }

  private text(v: unknown, place: string, name: string): string | undefined {
    if (v === undefined || typeof v === "string") return v;
    this.complain(place, `its ${name} is not a text`);
    return undefined;
  }

  private object(v: unknown, place: string, name: string): Fields {
    if (isObject(v)) return v;
    this.complain(place, `its ${name} is not an object`);
    return {};
  }

  private list<T>(v: unknown, place: string, name: string, read: (v: unknown) => T | null): T[] | undefined {
    if (v === undefined) return undefined;
    const all = Array.isArray(v) ? v.map(read) : [null];
    const bad = all.indexOf(null);
    if (bad < 0) return all as T[];
    this.complain(place, Array.isArray(v) ? `entry ${bad + 1} of its ${name} is not one` : `its ${name} is not a list`);
    return undefined;
  }

  private names(v: Fields, known: string[]): void {
    for (const name of Object.keys(v)) if (!known.includes(name)) this.unknown.add(name.slice(0, 40));
  }

  private no(place: string, what: string): null {
    this.complain(place, what);
    return null;
  }
}

/** A message's state without the fields that it does not have. */
export function defined<T extends object>(v: { [K in keyof T]: T[K] | undefined }): T {
  return Object.fromEntries(Object.entries(v).filter(([, value]) => value !== undefined)) as T;
}

/** Whether what is stored is m as it was read before. Fields that do not change alone are not compared. */
function sameState(m: Message, v: unknown): boolean {
  const o = v as Message;
  return (
    isObject(v) &&
    m.content === o.content &&
    m.reasoning === o.reasoning &&
    m.finish === o.finish &&
    m.error === o.error &&
    m.parent === o.parent &&
    m.role === o.role &&
    m.tokens?.length === o.tokens?.length &&
    m.calls?.length === o.calls?.length
  );
}

function texts<T>(v: unknown, names: (keyof T & string)[]): T | null {
  if (!isObject(v) || !names.every((n) => typeof v[n] === "string")) return null;
  return Object.fromEntries(names.map((n) => [n, v[n]])) as T;
}

/** The files that the server takes, in a form that an <img> shows and nothing else. */
const pictureURL = /^data:image\/(png|jpeg|webp|gif|bmp);base64,[A-Za-z0-9+/]+={0,2}$/;

export function picture(v: unknown): Picture | null {
  const p = texts<Picture>(v, ["name", "url"]);
  return p && pictureURL.test(p.url) ? p : null;
}

function likely(v: unknown): Likely | null {
  return isObject(v) && typeof v.token === "string" && typeof v.logprob === "number" && Number.isFinite(v.logprob)
    ? { token: v.token, logprob: v.logprob }
    : null;
}

function token(v: unknown): Token | null {
  const own = likely(v);
  const top = isObject(v) && Array.isArray(v.top) ? v.top.map(likely) : [null];
  return own && !top.includes(null) ? { ...own, top: top as Likely[] } : null;
}

/** A value as a message of an error shows it. */
export function shown(v: unknown): string {
  const text = v === undefined ? "missing" : (JSON.stringify(v) ?? "missing");
  return text.length > 60 ? `${text.slice(0, 60)}…` : text;
}
