import type { Conversation } from "./conversation";
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
const version = 1;
const store = "conversations";

/**
 * Conversations in the browser's database, which all tabs of the page share: what a tab changes it reads in the same transaction. Where there is no
 * database, as in some private windows, they last as long as the page.
 */
export class Archive {
  private opening: Promise<IDBDatabase | null> | null = null;
  private memory = new Map<string, Stored>();

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
      request.onupgradeneeded = () => request.result.createObjectStore(store, { keyPath: "id" }).createIndex("entry", ["updated", "id", "title"]);
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
        return db && db.transaction(store, mode);
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
    return whole(tx ? await done(tx.objectStore(store).get(id)) : this.memory.get(id));
  }

  /** Calls see with each conversation, one after the other, in a state of all at one time. */
  async each(see: (c: Conversation) => void): Promise<void> {
    const one = (v: unknown) => {
      const s = whole(v);
      if (s && !isDeleted(s)) see(s);
    };
    const tx = await this.transaction("readonly");
    if (tx) await each(tx.objectStore(store).openCursor(), (cursor) => one(cursor.value));
    else for (const s of this.memory.values()) one(s);
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
    const records = tx.objectStore(store);
    const stored = new Promise<void>((resolve, reject) => {
      tx.oncomplete = () => resolve();
      tx.onabort = () => reject(failureOf(tx.error));
    });
    stored.catch(() => {}); // work may fail before it is waited for
    let result: T;
    try {
      result = await work({
        get: async (id) => whole(await done(records.get(id))),
        put: (s) => void records.put(s),
        remove: (id) => void records.delete(id),
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
