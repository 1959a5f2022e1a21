import type { Conversation } from "./conversation";

/** What the list of conversations shows. */
export interface Entry {
  id: string;
  title: string;
  updated: number;
}

const database = "powerinfer";
const store = "conversations";

/** Conversations in the browser's database. Where there is none, as in some private windows, they last as long as the page. */
export class Archive {
  private readonly open: Promise<IDBDatabase | null>;
  private readonly memory = new Map<string, Conversation>();

  constructor() {
    this.open = new Promise((resolve) => {
      try {
        const request = indexedDB.open(database, 1);
        request.onupgradeneeded = () => request.result.createObjectStore(store, { keyPath: "id" }).createIndex("entry", ["updated", "id", "title"]);
        request.onsuccess = () => resolve(request.result);
        request.onerror = () => resolve(null);
      } catch {
        resolve(null);
      }
    });
  }

  /** All conversations, the newest first. Titles come from an index, so that no conversation is read for them. */
  async entries(): Promise<Entry[]> {
    const db = await this.open;
    if (!db) return Array.from(this.memory.values(), ({ id, title, updated }) => ({ id, title, updated })).sort((a, b) => b.updated - a.updated);
    return new Promise((resolve, reject) => {
      const all: Entry[] = [];
      const request = db.transaction(store).objectStore(store).index("entry").openKeyCursor(null, "prev");
      request.onsuccess = () => {
        const cursor = request.result;
        if (!cursor) return resolve(all);
        const [updated, id, title] = cursor.key as [number, string, string];
        all.push({ id, title, updated });
        cursor.continue();
      };
      request.onerror = () => reject(request.error);
    });
  }

  async get(id: string): Promise<Conversation | undefined> {
    const db = await this.open;
    return db ? done(db.transaction(store).objectStore(store).get(id)) : this.memory.get(id);
  }

  async all(): Promise<Conversation[]> {
    const db = await this.open;
    return db ? done(db.transaction(store).objectStore(store).getAll()) : [...this.memory.values()];
  }

  async put(c: Conversation): Promise<void> {
    const db = await this.open;
    if (db) await done(db.transaction(store, "readwrite").objectStore(store).put(c));
    else this.memory.set(c.id, c);
  }

  async remove(id: string): Promise<void> {
    const db = await this.open;
    if (db) await done(db.transaction(store, "readwrite").objectStore(store).delete(id));
    else this.memory.delete(id);
  }
}

function done<T>(request: IDBRequest<T>): Promise<T> {
  return new Promise((resolve, reject) => {
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error);
  });
}
