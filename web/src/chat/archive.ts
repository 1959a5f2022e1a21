import type { Conversation, Picture } from "./conversation";
import { isObject } from "./check";

/** What the list of conversations shows. */
export interface Entry {
  id: string;
  title: string;
  updated: number;
}

/** What is stored: a conversation, not yet checked, or the mark that it was deleted, by which other tabs know. Marks are not in the index. */
export type Stored = Conversation | { id: string; deleted: number };

export const isDeleted = (s: Stored): s is { id: string; deleted: number } => "deleted" in s;

/** The conversations as one transaction sees and changes them. */
export interface Records {
  get(id: string): Promise<Stored | undefined>;
  put(c: Stored): void;
  remove(id: string): void;
}

const database = "powerinfer";
const version = 2; // 2: with pictures
const store = "conversations";

/** The store of pictures' addresses by conversation, message and place in it: a conversation is written often, and its pictures are large. */
const pictures = "pictures";

/**
 * Conversations in the browser's database, which all tabs of the page share: what a tab changes it reads in the same transaction. Where there is no
 * database, as in some private windows, they last as long as the page.
 */
export class Archive {
  private opening: Promise<IDBDatabase | null> | null = null;
  private memory = new Map<string, Stored>();
  private seen = { id: "", urls: new Map<string, string>() }; // of the conversation read last: what does not change is read once

  /** tell is called with what the user should know about the database, and with nothing when that is over. */
  constructor(private readonly tell: (trouble: string) => void) {}

  private open(): Promise<IDBDatabase | null> {
    this.opening ??= new Promise((resolve, reject) => {
      const none = () => {
        this.tell(
          "This browser stores nothing for this page, perhaps since the window is private: conversations last until the tab closes. Export those that matter.",
        );
        resolve(null);
      };
      let request: IDBOpenDBRequest;
      try {
        request = indexedDB.open(database, version);
      } catch {
        return none();
      }
      request.onupgradeneeded = ({ oldVersion }) => {
        if (oldVersion < 1) request.result.createObjectStore(store, { keyPath: "id" }).createIndex("entry", ["updated", "id", "title"]);
        request.result.createObjectStore(pictures);
      };
      request.onblocked = () => this.tell("Another tab of this page holds the stored conversations. Close it.");
      request.onerror = () => {
        if (request.error?.name !== "VersionError") return none();
        this.opening = null;
        reject(new Error("A newer version of this page has stored the conversations. Reload the page, or update PowerInfer."));
      };
      request.onsuccess = () => {
        const db = request.result;
        const close = () => (this.opening = null); // it is opened again when it is needed next
        db.onclose = close;
        db.onversionchange = () => {
          db.close(); // so that a newer version of the page can go on
          close();
        };
        this.tell("");
        resolve(db);
      };
    });
    return this.opening;
  }

  private async transaction(mode: IDBTransactionMode): Promise<IDBTransaction | null> {
    for (let first = true; ; first = false) {
      const db = await this.open();
      try {
        return db && db.transaction([store, pictures], mode);
      } catch (failure) {
        if (!first || (failure as Error).name !== "InvalidStateError") throw failure;
        this.opening = null; // the browser has closed it
      }
    }
  }

  /** All conversations, the newest first. Titles come from an index, so that no conversation is read for them. */
  async entries(): Promise<Entry[]> {
    const tx = await this.transaction("readonly");
    if (!tx) {
      const all = [...this.memory.values()].flatMap((s) => (isDeleted(s) ? [] : [{ id: s.id, title: s.title, updated: s.updated }]));
      return all.sort((a, b) => b.updated - a.updated);
    }
    const all: Entry[] = [];
    await each(tx.objectStore(store).index("entry").openKeyCursor(null, "prev"), (cursor) => {
      const [updated, id, title] = cursor.key as [number, string, string];
      all.push({ id, title, updated });
    });
    return all;
  }

  async get(id: string): Promise<Stored | undefined> {
    const tx = await this.transaction("readonly");
    return tx ? this.read(tx, id) : this.memory.get(id);
  }

  private async read(tx: IDBTransaction, id: string): Promise<Stored | undefined> {
    const s = whole(await done(tx.objectStore(store).get(id)));
    if (!s || isDeleted(s)) return s;
    const urls = this.seen.id === id ? this.seen.urls : new Map<string, string>();
    for (const { key } of placesOf(s)) {
      const url = urls.has(nameOf(key)) || (await done(tx.objectStore(pictures).get(key)));
      if (typeof url === "string") urls.set(nameOf(key), url);
    }
    this.seen = { id, urls };
    return withPictures(s, (picture, key) => {
      const url = urls.get(nameOf(key));
      return url === undefined ? [] : [{ ...picture, url }];
    });
  }

  private put(tx: IDBTransaction, s: Stored): void {
    const { id } = s;
    tx.objectStore(store).put(isDeleted(s) ? s : withPictures(s, ({ url: _, ...rest }) => [rest as Picture]));
    this.putPictures(tx, id, isDeleted(s) ? [] : placesOf(s));
  }

  /** Makes these the stored pictures of a conversation. */
  private putPictures(tx: IDBTransaction, id: string, all: Place[]): void {
    const stored = tx.objectStore(pictures);
    const keys = stored.getAllKeys(IDBKeyRange.bound([id], [id, []]));
    keys.onsuccess = () => {
      const there = new Map(keys.result.map((key) => [nameOf(key), key]));
      for (const { key, picture } of all) if (!there.delete(nameOf(key))) stored.put(picture.url, key);
      for (const key of there.values()) stored.delete(key);
    };
    if (all.length === 0 && this.seen.id === id) this.seen = { id: "", urls: new Map() };
  }

  /** Calls see with each conversation, one after the other, in a state of all at one time. */
  async each(see: (c: Conversation) => void): Promise<void> {
    const tx = await this.transaction("readonly");
    const ids = tx ? await done(tx.objectStore(store).getAllKeys()) : this.memory.keys();
    for (const id of ids) {
      const s = tx ? await this.read(tx, String(id)) : this.memory.get(String(id));
      if (s && !isDeleted(s)) see(s);
    }
  }

  /** Does work in one transaction: all that it puts is stored when write returns, or nothing is and it fails. work waits for nothing but records. */
  async write<T>(work: (records: Records) => Promise<T>): Promise<T> {
    const tx = await this.transaction("readwrite");
    if (!tx) {
      const now = new Map(this.memory);
      const result = await work({ get: async (id) => now.get(id), put: (s) => void now.set(s.id, s), remove: (id) => void now.delete(id) });
      this.memory = now;
      return result;
    }
    const stored = new Promise<void>((resolve, reject) => {
      tx.oncomplete = () => resolve();
      tx.onabort = () => reject(failureOf(tx.error));
    });
    stored.catch(() => {}); // work may fail before it is waited for
    let result: T;
    try {
      result = await work({
        get: (id) => this.read(tx, id),
        put: (s) => this.put(tx, s),
        remove: (id) => {
          tx.objectStore(store).delete(id);
          this.putPictures(tx, id, []);
        },
      });
    } catch (failure) {
      try {
        tx.abort();
      } catch {
        // it has ended
      }
      throw tx.error || failure instanceof DOMException ? failureOf(tx.error ?? (failure as DOMException)) : failure;
    }
    await stored;
    return result;
  }
}

/** A picture and where it is stored. */
interface Place {
  key: IDBValidKey;
  picture: Picture;
}

const nameOf = (key: IDBValidKey) => JSON.stringify(key);

function placesOf(c: Conversation): Place[] {
  return Object.entries(c.messages).flatMap(([m, { pictures }]) =>
    Array.isArray(pictures) ? pictures.map((picture, i) => ({ key: [c.id, m, i], picture })) : [],
  );
}

/** c with what make gives in place of each picture. */
function withPictures(c: Conversation, make: (p: Picture, key: IDBValidKey) => Picture[]): Conversation {
  const messages = { ...c.messages };
  for (const [id, m] of Object.entries(messages))
    if (Array.isArray(m.pictures)) messages[id] = { ...m, pictures: m.pictures.flatMap((p, i) => make(p, [c.id, id, i])) };
  return { ...c, messages };
}

/** Why nothing was stored, and what to do. */
function failureOf(error: DOMException | null): Error {
  if (error?.name === "QuotaExceededError")
    return new Error("The browser has no more room for this page. Export what matters, and delete what does not.");
  return new Error(`The browser's database failed${error ? ` (${error.message || error.name})` : ""}. Export what matters, and reload the page.`);
}

/** What is stored, with the parts that changes are made to. */
function whole(v: unknown): Stored | undefined {
  if (!isObject(v)) return undefined;
  if ("deleted" in v) return v as unknown as Stored;
  const messages = Object.fromEntries(Object.entries(isObject(v.messages) ? v.messages : {}).filter(([, m]) => isObject(m)));
  return { ...v, messages, chosen: isObject(v.chosen) ? v.chosen : {} } as unknown as Conversation;
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(failureOf(request.error));
  });
}

function each<C extends IDBCursor>(request: IDBRequest<C | null>, see: (cursor: C) => void): Promise<void> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => {
      const cursor = request.result;
      if (!cursor) return resolve();
      see(cursor);
      cursor.continue();
    };
    request.onerror = () => reject(failureOf(request.error));
  });
}
