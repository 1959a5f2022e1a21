import { computed, effect, signal } from "@preact/signals";
import { apiKey, askJSON, keyRefused, numberOf } from "../api/client";
import { size } from "../shell/size";
import { isText, stored } from "../shell/stored";

const statuses = ["loaded", "unloaded", "loading", "failed"] as const;

export interface Model {
  id: string;
  status: (typeof statuses)[number];
  context?: number | undefined;
}

/** What a model's file is. */
export interface Details {
  bytes: number;
  kind: string[]; // family, parameters, type of its weights, as far as they are known
}

/** A model that could be fetched. */
export interface Published {
  name: string;
  at: string; // its name for /api/pull
  bytes: number;
  about: string;
}

export const models = signal<Model[]>([]);

/** By the models' names. */
export const details = signal<Record<string, Details>>({});

/** Why the list could not be had; empty where it could. */
export const modelsError = signal("");

/** What the server does with models; null: not known yet. */
export const server = signal<{ several: boolean; pulls: boolean; published: Published[]; ram: number } | null>(null);

/** Says of a model of so many bytes that it is too large for the server's machine; empty where it is not, or not known. */
export function tooLarge(bytes: number): string {
  const ram = server.value?.ram ?? 0;
  return ram > 0 && bytes > ram ? `too large for this machine's ${size(ram)} of RAM` : "";
}

/** Whether the dialog of models is shown. */
export const modelsOpen = signal(false);

const wanted = stored("model", "", isText, false);

/** The model that answers: the one chosen, if the server still has it. */
export const model = computed(() => {
  const all = models.value;
  return all.find((m) => m.id === wanted.value) ?? all.find((m) => m.status === "loaded") ?? all[0];
});

/** Its name; empty: there is none. Like loadedModel it changes when the model does, and not with each list. */
export const modelName = computed(() => model.value?.id ?? "");

/** Its name while it is loaded. */
export const loadedModel = computed(() => (model.value?.status === "loaded" ? model.value.id : ""));

export function choose(id: string): void {
  wanted.value = id;
}

/** How often the list was asked for. */
const modelsAsked = signal(0);

export async function refresh(): Promise<void> {
  try {
    const list = await askJSON<{ data: any[] }>("v1/models");
    models.value = list.data.map((m) => ({
      id: String(m.id),
      status: m.status?.failed ? "failed" : (statuses.find((s) => s === m.status?.value) ?? "loaded"),
      context: numberOf(m.meta?.n_ctx) || undefined,
    }));
    modelsError.value = "";
    if (!server.value) void askServer().catch(() => {}); // with the next list, then
  } catch (failure) {
    modelsError.value = (failure as Error).message;
  }
  modelsAsked.value++;
}

async function askServer(): Promise<void> {
  const props = await askJSON<any>("props");
  const published: any[] = Array.isArray(props.published) ? props.published : [];
  server.value = {
    several: props.role === "router",
    pulls: props.pull === true,
    ram: numberOf(props.ram),
    published: published.map((p) => ({ name: String(p.name), at: String(p.at), bytes: Number(p.bytes) || 0, about: String(p.about ?? "") })),
  };
}

/** Asks what the models' files are. */
export async function refreshDetails(): Promise<void> {
  const tags = await askJSON<{ models: any[] }>("api/tags");
  details.value = Object.fromEntries(
    tags.models.map((m) => {
      const d = m.details ?? {};
      return [String(m.name), { bytes: numberOf(m.size), kind: [d.family, d.parameter_size, d.quantization_level].filter(Boolean).map(String) }];
    }),
  );
}

/** While a model is loaded the list is asked for this often, in milliseconds. */
const loadingPeriod = 700;
const emptyPeriod = 2000; // while there is none

/** A key that was entered in another tab is tried where this one asks for it. */
effect(() => {
  if (!apiKey.value || !keyRefused.peek()) return;
  keyRefused.value = false;
  void refresh();
});

let asking = 0; // the timer of the next asking

/** Asks for the list again while there is nothing to choose from or a model is being loaded. */
effect(() => {
  clearTimeout(asking);
  const empty = models.value.length === 0;
  const waits = modelsAsked.value > 0 && !keyRefused.value && (empty || models.value.some((m) => m.status === "loading"));
  if (waits) asking = window.setTimeout(refresh, empty ? emptyPeriod : loadingPeriod);
});

/** Follows how a model is loaded that a request has just named. */
export function whileLoading(): void {
  window.setTimeout(refresh, loadingPeriod / 2);
}

/** What is being done with models, by their names. */
export const changing = signal<Record<string, "load" | "unload">>({});

/** Loads or unloads a model, and returns when that is done. */
export async function change(id: string, what: "load" | "unload"): Promise<void> {
  if (id === model.value?.id) choose(id); // it stays the one that answers
  changing.value = { ...changing.value, [id]: what };
  let problem = "";
  try {
    await askJSON(`models/${what}`, { model: id });
  } catch (failure) {
    problem = (failure as Error).message;
  }
  await refresh();
  if (problem) modelsError.value = problem;
  const { [id]: _, ...others } = changing.value;
  changing.value = others;
}
