import { effect, signal, type Signal } from "@preact/signals";

const prefix = "powerinfer.";

/** Reads what is stored, which is not trusted; undefined where it does not fit. */
export type Read<T> = (v: unknown) => T | undefined;

export const isText: Read<string> = (v) => (typeof v === "string" ? v : undefined);
export const isFlag: Read<boolean> = (v) => (typeof v === "boolean" ? v : undefined);

/**
 * A signal with a value that the browser keeps. Where it keeps nothing, the value lasts as long as the page. A shared one follows other tabs; the others
 * are a tab's own from its beginning on.
 */
export function stored<T>(name: string, initial: T, read: Read<T>, shared = true): Signal<T> {
  const key = prefix + name;
  const load = (): T => {
    try {
      const text = localStorage.getItem(key);
      return text === null ? initial : (read(JSON.parse(text)) ?? initial);
    } catch {
      return initial; // not JSON, or storage is forbidden
    }
  };
  const s = signal(load());
  let last = JSON.stringify(s.peek());
  effect(() => {
    const text = JSON.stringify(s.value);
    if (text === last) return;
    last = text;
    try {
      if (s.value === initial) localStorage.removeItem(key);
      else localStorage.setItem(key, text);
    } catch {
      // full, or forbidden
    }
  });
  const follow = () => {
    const value = load();
    const text = JSON.stringify(value);
    if (text === last) return;
    last = text;
    s.value = value;
  };
  if (shared) {
    addEventListener("storage", (e) => (e.key === key || e.key === null) && follow());
    addEventListener("pageshow", (e) => e.persisted && follow()); // it heard nothing while it was away
  }
  return s;
}
