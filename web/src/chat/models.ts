import { computed, signal } from "@preact/signals";
import { askJSON, ServerError } from "../api/client";
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

export async function refresh(): Promise<void> {
  try {
    const list = await askJSON<{ data: any[] }>("v1/models");
    models.value = list.data.map((m) => ({
      id: String(m.id),
      status: m.status?.failed ? "failed" : (m.status?.value ?? "loaded"),
      context: m.meta?.n_ctx,
      bytes: m.meta?.size,
    }));
    canLoad.value = canLoad.value && list.data.some((m) => m.status);
    modelsError.value = "";
  } catch (failure) {
    modelsError.value = (failure as Error).message;
  }
}

/** While a model is loaded the list is asked for this often, in milliseconds. */
const loadingPeriod = 700;

export async function load(m: Model): Promise<void> {
  await change("models/load", m);
  while (models.value.some((o) => o.id === m.id && o.status === "loading")) {
    await new Promise((resolve) => setTimeout(resolve, loadingPeriod));
    await refresh();
  }
}

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
