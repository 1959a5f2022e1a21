import { effect, signal } from "@preact/signals";
import { ask, askJSON } from "../api/client";
import { events } from "../api/events";
import { model } from "../chat/models";

export interface Layer {
  neurons: number;
  mode: string;
  dense_bytes: number;
  gpu: number; // -1: none
  hot: number; // neurons on the GPU, or experts
  experts?: number; // of the layer, where it has some
  attention_on_gpu: boolean;
  predictor_on_gpu: boolean;
  expected?: { dense_ms: number; hot_ms: number; cold_ms: number; wait_ms: number; ms: number }; // of a token's time
}

export interface Description {
  model: string;
  device: string;
  mode: string;
  activation: string;
  threshold: number;
  adjustable: boolean;
  layers: Layer[];
  plan: { gpus: { device: string; budget: number; planned: number }[]; bytes: number; tokens_per_second: number } | null;
}

/** Milliseconds in which parts of steps were computed. */
export interface Parts {
  predictor_ms: number;
  attention_ms: number;
  neurons_ms: number;
  head_ms: number;
  other_ms: number;
}

/** What steps took; its parts are the processor's. */
export interface Spent extends Parts {
  steps: number;
  tokens: number;
  chosen: number;
  ms: number;
  gpu: Parts | null; // by the GPUs' own clocks; null: none takes part, or it has no clock
  together_ms: number; // in which the processor and a GPU computed both
  bytes: number;
  ram_bytes: number;
  dense_bytes: number;
}

interface Event {
  ms: number;
  threshold: number;
  generation: Spent;
  prompts: Spent;
  computed: number[];
  active: number[];
  map: string[];
}

/** What happened in one event, for the charts. */
export interface Moment {
  time: number; // milliseconds
  computed: number; // share of all neurons
  active: number;
  generation: Spent | null; // where tokens were generated
  prompts: number; // tokens of prompts read
}

/** How far back the charts go, in milliseconds. */
export const window_ms = 60_000;

export const description = signal<Description | null>(null);
export const moments = signal<Moment[]>([]);
export const problem = signal("");
export const threshold = signal(0);

/** [layers][bins] shares of tokens that needed a neuron, smoothed. Replaced as a whole. */
export const shares = signal<Float32Array[]>([]);

/** Whether the neurons are shown: then the server is asked for events. */
export const watching = signal(false);

/** The weight of what is new in what is shown: less flickers less. */
const freshness = 0.5;

/** After so many milliseconds a connection that broke is tried again. */
const retryAfter = 2000;

effect(() => {
  const name = model.value?.status === "loaded" ? model.value.id : "";
  if (!watching.value || !name) return;
  const abort = new AbortController();
  void follow(name, abort.signal);
  return () => abort.abort();
});

async function follow(name: string, abort: AbortSignal): Promise<void> {
  const query = `?model=${encodeURIComponent(name)}`;
  while (!abort.aborted) {
    try {
      const d = await askJSON<Description>(`neurons${query}`, undefined, abort);
      if (description.peek()?.model !== d.model) {
        moments.value = [];
        shares.value = [];
      }
      description.value = d;
      threshold.value = d.threshold;
      problem.value = "";
      const response = await ask(`neurons/events${query}`, undefined, abort);
      for await (const data of events(response.body!)) take(JSON.parse(data));
    } catch (failure) {
      if (abort.aborted) return;
      problem.value = (failure as Error).message;
    }
    await new Promise((resolve) => setTimeout(resolve, retryAfter));
  }
}

function take(e: Event): void {
  const d = description.peek()!;
  const now = Date.now();
  const all = d.layers.reduce((n, l) => n + l.neurons, 0);
  const share = (of: number[]) => of.reduce((sum, s, l) => sum + s * d.layers[l]!.neurons, 0) / all;
  const moment: Moment = {
    time: now,
    computed: share(e.computed),
    active: share(e.active),
    generation: e.generation.tokens > 0 ? e.generation : null,
    prompts: e.prompts.tokens,
  };
  moments.value = [...moments.peek().filter((m) => now - m.time < window_ms), moment];
  threshold.value = e.threshold;
  const before = shares.peek();
  shares.value = e.map.map((text, l) => {
    const shades = atob(text);
    const old = before[l]?.length === shades.length ? before[l] : undefined;
    return Float32Array.from(shades, (c, i) => {
      const now = (c.charCodeAt(0) / 255) ** 2;
      return old ? freshness * now + (1 - freshness) * old[i]! : now;
    });
  });
}

/** What generating took in the last while, added up. */
export function recent(ms: number): Spent | null {
  const since = (moments.value.at(-1)?.time ?? 0) - ms;
  const all = moments.value.filter((m) => m.time >= since && m.generation).map((m) => m.generation!);
  if (all.length === 0) return null;
  const sum = total(all);
  const gpus = all.flatMap((s) => s.gpu ?? []);
  return { ...sum, gpu: gpus.length > 0 ? total(gpus) : null };
}

/** The sum of objects, number by number. */
function total<T extends object>(all: T[]): T {
  const sum = { ...all[0]! } as Record<string, unknown>;
  for (const one of all.slice(1))
    for (const [key, value] of Object.entries(one)) if (typeof value === "number") sum[key] = (sum[key] as number) + value;
  return sum as T;
}

export interface Comparison {
  threshold: number;
  tokens: number;
  divergence: number;
  same_top: number;
  ms: number;
  dense_ms: number;
}

export async function setThreshold(value: number): Promise<void> {
  await askJSON("neurons/threshold", { model: model.value!.id, threshold: value });
  threshold.value = value;
}

export function compare(text: string, abort: AbortSignal): Promise<Comparison> {
  return askJSON("neurons/compare", { model: model.value!.id, text }, abort);
}
