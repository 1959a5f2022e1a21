import { effect, signal, type Signal } from "@preact/signals";

const prefix = "powerinfer.";

/** A signal whose value the browser keeps. Where it keeps nothing, the value lasts as long as the page. */
export function stored<T>(name: string, initial: T): Signal<T> {
  let value = initial;
  try {
    const text = localStorage.getItem(prefix + name);
    if (text !== null) value = JSON.parse(text);
  } catch {
    // kept by something else, or not to be read
  }
  const s = signal(value);
  effect(() => {
    const text = JSON.stringify(s.value);
    try {
      if (s.value === initial) localStorage.removeItem(prefix + name);
      else localStorage.setItem(prefix + name, text);
    } catch {
      // full, or forbidden
    }
  });
  return s;
}
