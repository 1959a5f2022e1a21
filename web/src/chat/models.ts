import { computed, effect, signal } from "@preact/signals";
import { askJSON, keyRefused, ServerError } from "../api/client";
import { stored } from "../shell/stored";

export interface Model {
  id: string;
  status: "loaded" | "unloaded" | "loading" | "failed";
  context?: number;
  bytes?: number;
}

export const models = signal<Model[]>([]);

/** Why the list could not be had; empty where it could. */
export const modelsError = signal("");

/** Whether the server loads and unloads models. It is not asked before one tries. */
export const canLoad = signal(true);

const wanted = stored("model", "");

/** The model that answers: the one chosen, if the server still has it. */
export const model = computed(() => {
  const all = models.value;
  return all.find((m) => m.id === wanted.value) ?? all.find((m) => m.status === "loaded") ?? all[0];
});

export function choose(m: Model): void {
  wanted.value = m.id;
}

/** How often the list was asked for. */
const modelsAsked = signal(0);

export async function refresh(): Promise<void> {
  try {
    const list = await askJSON<{ data: any[] }>("v1/models");
    models.value = list.data.map((m) => ({
      id: String(m.id),
      status: m.status?.failed ? "failed" : (m.status?.value ?? "loaded"),
      context: m.meta?.n_ctx,
      bytes: m.meta?.size,
    }));
    if (list.data.length > 0 && !list.data.some((m) => m.status)) canLoad.value = false;
    modelsError.value = "";
  } catch (failure) {
    modelsError.value = (failure as Error).message;
  }
  modelsAsked.value++;
}

/** While a model is loaded the list is asked for this often, in milliseconds. */
const loadingPeriod = 700;
const emptyPeriod = 2000; // while there is none

let asking = 0; // the timer of the next asking

/** Asks for the list again while there is nothing to choose from or a model is being loaded. */
effect(() => {
  clearTimeout(asking);
  const empty = models.value.length === 0;
  const waits = modelsAsked.value > 0 && !keyRefused.value && (empty || models.value.some((m) => m.status === "loading"));
  if (waits) asking = window.setTimeout(refresh, empty ? emptyPeriod : loadingPeriod);
});

export const load = (m: Model) => change("models/load", m);

export const unload = (m: Model) => change("models/unload", m);

async function change(path: string, m: Model): Promise<void> {
  try {
    await askJSON(path, { model: m.id });
  } catch (failure) {
    if (failure instanceof ServerError && [404, 405, 501].includes(failure.status)) canLoad.value = false;
    else modelsError.value = (failure as Error).message;
  }
  await refresh();
}
