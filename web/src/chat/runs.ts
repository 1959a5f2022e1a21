import { batch, signal, type Signal } from "@preact/signals";
import type { Call, Piece, Progress } from "../api/chat";
import type { Message } from "./conversation";
import { tab, tell, type News } from "./tabs";

/** An answer in the making. */
export interface Run {
  message: Signal<Message>;
  progress: Signal<Progress | null>; // of reading the prompt
  elsewhere: boolean; // another tab receives it
  heard: number; // when it was last heard of, for one elsewhere
  stop: () => void;
}

/** The answers in the making, by conversation. */
export const runs = signal<ReadonlyMap<string, Run>>(new Map());

function setRun(conversation: string, r: Run | undefined): void {
  const all = new Map(runs.peek());
  if (r) all.set(conversation, r);
  else all.delete(conversation);
  runs.value = all;
}

/** How often an unfinished answer is kept, in milliseconds, so that a reload loses little, and how often other tabs are told of it. */
const keepPeriod = 1000;
const tellPeriod = 100;

/** An answer that came is shown after so long at the latest, in milliseconds: a hidden page has no frames. */
const slowest = 200;

/** Collects an answer into message, which may have a beginning already. keep is given its states; the last one has finish or error set. */
export async function run(
  conversation: string,
  message: Message,
  ask: (abort: AbortSignal) => AsyncGenerator<Piece>,
  keep: (m: Message) => Promise<void>,
): Promise<void> {
  const abort = new AbortController();
  const draft = new Draft(message);
  const own: Run = { message: signal(message), progress: signal(null), elsewhere: false, heard: 0, stop: () => abort.abort() };
  setRun(conversation, own);
  tellOf(conversation, own);
  let frame = 0;
  let shown = 0;
  let [kept, told] = [performance.now(), performance.now()];
  const show = () => {
    cancelAnimationFrame(frame);
    frame = 0;
    shown = performance.now();
    batch(() => {
      own.message.value = draft.state();
      own.progress.value = draft.progress;
    });
    if (shown - told > tellPeriod) {
      told = shown;
      tellOf(conversation, own);
    }
    if (shown - kept > keepPeriod) {
      kept = shown;
      void keep(own.message.value);
    }
  };
  try {
    for await (const piece of ask(abort.signal)) {
      draft.add(piece);
      if (performance.now() - shown > slowest) show();
      else frame ||= requestAnimationFrame(show);
    }
  } catch (failure) {
    draft.fail(failure, abort.signal.aborted);
  }
  cancelAnimationFrame(frame);
  own.message.value = draft.state();
  await keep(own.message.value);
  if (runs.peek().get(conversation) === own) setRun(conversation, undefined);
  tell({ kind: "answered", id: conversation, message: message.id });
}

/** Tells other tabs how far an answer is. Its tokens come with its end: they are much. */
function tellOf(conversation: string, r: Run): void {
  const { tokens: _, ...message } = r.message.peek();
  tell({ kind: "answering", id: conversation, message, progress: r.progress.peek() });
}

/** After so long without news another tab is asked whether it still receives its answer, and it does not if it says nothing for as long again. */
const silence = 3000;

let watching = 0; // the timer

/** Takes news of an answer that another tab receives. Returns whether this tab receives one in the same conversation. */
export function hearOf({ id, message, progress }: News & { kind: "answering" }, from: string): boolean {
  const known = runs.peek().get(id);
  if (known && !known.elsewhere) {
    if (known.message.peek().id === message.id && from < tab) known.stop(); // both go on with one answer: one of them does
    return true;
  }
  if (known?.message.peek().id === message.id) {
    batch(() => {
      known.message.value = message;
      known.progress.value = progress;
    });
    known.heard = performance.now();
  } else {
    const stop = () => tell({ kind: "stop", id });
    setRun(id, { message: signal(message), progress: signal(progress), elsewhere: true, heard: performance.now(), stop });
  }
  watching ||= window.setInterval(watch, silence / 3);
  return false;
}

/** Drops the answer that another tab has ended. */
export function ended(conversation: string, message: string): void {
  const known = runs.peek().get(conversation);
  if (known?.elsewhere && known.message.peek().id === message) setRun(conversation, undefined);
}

/** Other tabs need not wait for a tab that closes. */
addEventListener("pagehide", () => {
  for (const [id, r] of runs.peek()) if (!r.elsewhere) tell({ kind: "answered", id, message: r.message.peek().id });
});

/** Says which answers this tab receives. */
export function tellAll(): void {
  for (const [id, r] of runs.peek()) if (!r.elsewhere) tellOf(id, r);
}

/** Drops answers of tabs that have gone without a word. */
function watch(): void {
  const now = performance.now();
  let left = 0;
  for (const [id, r] of runs.peek()) {
    if (!r.elsewhere) continue;
    if (now - r.heard > 2 * silence) {
      setRun(id, undefined);
      continue;
    }
    left++;
    if (now - r.heard > silence) tell({ kind: "who" });
  }
  if (left > 0) return;
  clearInterval(watching);
  watching = 0;
}

/** Collects an answer's pieces. */
class Draft {
  progress: Progress | null = null;
  private content: string;
  private reasoning: string;
  private readonly calls: Call[] = [];
  private readonly tokens;
  private readonly ends: Partial<Message> = {};

  constructor(private readonly begin: Message) {
    this.content = begin.content;
    this.reasoning = begin.reasoning ?? "";
    this.tokens = [...(begin.tokens ?? [])];
  }

  add(p: Piece): void {
    if (p.progress) this.progress = p.progress;
    if (p.content !== undefined || p.reasoning !== undefined || p.calls || p.tokens) this.progress = null;
    this.content += p.content ?? "";
    this.reasoning += p.reasoning ?? "";
    for (const c of p.calls ?? []) {
      const call = (this.calls[c.index] ??= { id: "", name: "", arguments: "" });
      call.id ||= c.id ?? "";
      call.name += c.name ?? "";
      call.arguments += c.arguments;
    }
    this.tokens.push(...(p.tokens ?? []));
    if (p.timings) this.ends.timings = p.timings;
    if (p.finish) this.ends.finish = p.finish;
    if (p.first) this.ends.first = p.first;
  }

  fail(failure: unknown, aborted: boolean): void {
    if (aborted) {
      this.ends.finish = "stopped";
      return;
    }
    this.ends.finish = "error";
    this.ends.error = (failure as Error).message;
  }

  state(): Message {
    return {
      ...this.begin,
      ...this.ends,
      content: this.content,
      reasoning: this.reasoning || undefined,
      calls: this.calls.length > 0 ? this.calls.filter(Boolean).map((c) => ({ ...c })) : undefined,
      tokens: this.tokens.length > 0 ? [...this.tokens] : undefined,
    };
  }
}
