import { batch, signal, type Signal } from "@preact/signals";
import type { Call, Piece, Progress } from "../api/chat";
import type { Message } from "./conversation";

/** An answer in the making. */
export interface Run {
  message: Signal<Message>;
  progress: Signal<Progress | null>; // of reading the prompt
  stop: () => void;
}

/** The answers in the making, by conversation. */
export const runs = signal<Record<string, Run>>({});

/** How often an unfinished answer is kept, in milliseconds, so that a reload loses little. */
const keepPeriod = 1000;

/** Collects an answer into message, which may have a beginning already. keep is given its states; the last one has finish or error set. */
export async function run(
  conversation: string,
  message: Message,
  ask: (abort: AbortSignal) => AsyncGenerator<Piece>,
  keep: (m: Message) => void,
): Promise<void> {
  const abort = new AbortController();
  const draft = new Draft(message);
  const own: Run = { message: signal(message), progress: signal(null), stop: () => abort.abort() };
  runs.value = { ...runs.value, [conversation]: own };
  let frame = 0;
  let kept = performance.now();
  const show = () => {
    frame = 0;
    batch(() => {
      own.message.value = draft.state();
      own.progress.value = draft.progress;
    });
    if (performance.now() - kept > keepPeriod) {
      kept = performance.now();
      keep(own.message.value);
    }
  };
  try {
    for await (const piece of ask(abort.signal)) {
      draft.add(piece);
      frame ||= requestFrame(show);
    }
  } catch (failure) {
    draft.fail(failure, abort.signal.aborted);
  }
  cancelAnimationFrame(frame);
  keep(draft.state());
  const { [conversation]: _, ...others } = runs.value;
  runs.value = others;
}

/** A frame, or a timer where the page is hidden and has no frames. */
function requestFrame(f: () => void): number {
  if (document.hidden) {
    setTimeout(f, 200);
    return 1;
  }
  return requestAnimationFrame(f);
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
