import type { Progress } from "../api/chat";
import { isID, isObject, Reader } from "./check";
import { newID, type Message } from "./conversation";

/**
 * What tabs of the page tell each other. It is news only: what is so is in the archive, and a tab that missed news reads it there.
 *
 * changed: conversations were stored; removed: one was deleted; answering: the state of an answer that the sender receives; answered: it has ended, and
 * its state is stored; stop: whoever receives the conversation's answer ends it; who: whoever receives answers says so.
 */
export type News =
  | { kind: "changed"; ids: string[] }
  | { kind: "removed"; id: string }
  | { kind: "answering"; id: string; message: Message; progress: Progress | null }
  | { kind: "answered"; id: string; message: string }
  | { kind: "stop"; id: string }
  | { kind: "who" };

/** The name changes with the form of the news: versions of the page that differ in it do not hear each other. */
const channel = new BroadcastChannel("powerinfer-1");

/** Tells tabs apart. */
export const tab = newID();

export function tell(news: News): void {
  channel.postMessage({ ...news, tab });
}

/** Has hear called with the news of other tabs, and with the tab that tells it. */
export function listen(hear: (news: News, from: string) => void): void {
  channel.onmessage = ({ data }) => {
    const news = newsOf(data);
    if (news) hear(news, String(data.tab));
  };
  tell({ kind: "who" });
}

const reader = new Reader(() => {});

function newsOf(v: unknown): News | null {
  if (!isObject(v)) return null;
  switch (v.kind) {
    case "changed":
      return Array.isArray(v.ids) ? { kind: v.kind, ids: v.ids.filter(isID) } : null;
    case "removed":
    case "stop":
      return isID(v.id) ? { kind: v.kind, id: v.id } : null;
    case "answering": {
      const message = reader.message(v.message, "");
      return isID(v.id) && message ? { kind: v.kind, id: v.id, message, progress: progressOf(v.progress) } : null;
    }
    case "answered":
      return isID(v.id) && isID(v.message) ? { kind: v.kind, id: v.id, message: v.message } : null;
    case "who":
      return { kind: v.kind };
    default:
      return null;
  }
}

function progressOf(v: unknown): Progress | null {
  const numbers = (o: Record<string, unknown>, ...names: string[]) => names.every((n) => typeof o[n] === "number");
  if (!isObject(v) || !numbers(v, "total", "cache", "processed", "time_ms")) return null;
  const p = v["pictures"];
  return p === undefined || (isObject(p) && numbers(p, "total", "processed")) ? (v as unknown as Progress) : null;
}
