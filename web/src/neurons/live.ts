import { batch, computed, effect, signal } from "@preact/signals";
import { ask, askJSON } from "../api/client";
import { events } from "../api/events";
import { runs } from "../chat/runs";
import { loadedModel, model, modelName, refresh } from "../chat/models";

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
  disk: { units: number; kept_units: number; bytes: number; kept_bytes: number } | null; // experts or neurons; null: none stays there
}

/** What was done with experts or neurons that stay on disk. */
export interface OnDisk {
  kept: number; // uses of those that were kept in RAM
  ahead: number; // of those that were read ahead
  read: number; // of those that were on disk
  reads: number;
  bytes: number;
  reading_ms: number; // reads were under way
  waiting_ms: number; // of the steps' time
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
  disk: OnDisk | null; // null: nothing stays on disk
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
  ms: number; // that its steps took
  computed: number; // share of all neurons
  active: number;
  generation: Spent | null; // where tokens were generated
  prompts: number; // tokens of prompts read
}

/** So many moments are kept: about a minute of work, however long ago it was. */
const mostMoments = 240;

export const description = signal<Description | null>(null);
export const moments = signal<Moment[]>([]);
export const problem = signal("");
export const threshold = signal(0);

/** [layers][bins] shares of tokens that needed a neuron, smoothed. Replaced as a whole. */
export const shares = signal<Float32Array[]>([]);

/** Whether the page is seen. */
const seen = signal(!document.hidden);
document.addEventListener("visibilitychange", () => (seen.value = !document.hidden));

/** Whether the server is asked for events. It is while the neurons are not shown, too: who opens them wants to see what the last answer needed. */
const watching = computed(() => seen.value || runs.value.size > 0);

/** The weight of what is new in what is shown: less flickers less. */
const freshness = 0.5;

/** After so many milliseconds a connection that broke is tried again. */
const retryAfter = 2000;

effect(() => {
  const name = loadedModel.value;
  const chosen = modelName.value;
  const described = description.peek()?.model;
  if (described && chosen && described !== chosen) forget();
  if (!watching.value || !name) return;
  const abort = new AbortController();
  void follow(name, abort.signal);
  return () => abort.abort();
});

function forget(): void {
  description.value = null;
  moments.value = [];
  shares.value = [];
  problem.value = "";
}

async function follow(name: string, abort: AbortSignal): Promise<void> {
  const query = `?model=${encodeURIComponent(name)}`;
  while (!abort.aborted) {
    try {
      const d = await askJSON<Description>(`neurons${query}`, undefined, abort);
      batch(() => {
        if (description.peek()?.model !== d.model) {
          forget();
          recall(d);
        }
        description.value = d;
        threshold.value = d.threshold;
        problem.value = "";
      });
      const response = await ask(`neurons/events${query}`, undefined, abort);
      for await (const data of events(response.body!)) take(JSON.parse(data));
    } catch (failure) {
      if (abort.aborted) return;
      problem.value = (failure as Error).message;
    }
    void refresh(); // it may be another model by now, or none
    await new Promise((resolve) => setTimeout(resolve, retryAfter));
  }
}

function take(e: Event): void {
  const d = description.peek()!;
  const all = d.layers.reduce((n, l) => n + l.neurons, 0);
  const share = (of: number[]) => of.reduce((sum, s, l) => sum + s * d.layers[l]!.neurons, 0) / all;
  const moment: Moment = {
    ms: e.generation.ms + e.prompts.ms,
    computed: share(e.computed),
    active: share(e.active),
    generation: e.generation.tokens > 0 ? e.generation : null,
    prompts: e.prompts.tokens,
  };
  const before = shares.peek();
  batch(() => {
    moments.value = [...moments.peek(), moment].slice(-mostMoments);
    threshold.value = e.threshold;
    shares.value = e.map.map((text, l) => {
      const now = sharesOf(text);
      const old = before[l];
      return old?.length === now.length ? now.map((s, i) => freshness * s + (1 - freshness) * old[i]!) : now;
    });
  });
  last = e.map;
}

function sharesOf(picture: string): Float32Array {
  return Float32Array.from(atob(picture), (c) => (c.charCodeAt(0) / 255) ** 2);
}

/** The pictures of the last event. */
let last: string[] = [];

/** Where what the last answer needed is kept while the page is loaded again. */
const place = "powerinfer.neurons";
const mostKept = 60; // moments

addEventListener("pagehide", () => {
  try {
    if (last.length > 0) {
      const kept = { model: description.peek()?.model, moments: moments.peek().slice(-mostKept), map: last };
      sessionStorage.setItem(place, JSON.stringify(kept));
    }
  } catch {
    // full, or forbidden
  }
});

function recall(d: Description): void {
  try {
    const kept = JSON.parse(sessionStorage.getItem(place) ?? "{}");
    if (kept.model !== d.model || kept.map.length !== d.layers.length) return;
    last = kept.map;
    moments.value = kept.moments;
    shares.value = last.map(sharesOf);
  } catch {
    // kept by something else, or not to be read
  }
}

/** Figures are over so many milliseconds. */
export const recently = 2000;

/** What generating took in the last while, added up: the newest moments that make up so many milliseconds of work. */
export function recent(ms: number): Spent | null {
  const all: Spent[] = [];
  let sum = 0;
  for (const m of moments.value.toReversed()) {
    if (!m.generation) continue;
    all.push(m.generation);
    if ((sum += m.ms) >= ms) break;
  }
  if (all.length === 0) return null;
  const gpus = all.flatMap((s) => s.gpu ?? []);
  const disks = all.flatMap((s) => s.disk ?? []);
  return { ...total(all), gpu: gpus.length > 0 ? total(gpus) : null, disk: disks.length > 0 ? total(disks) : null };
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
