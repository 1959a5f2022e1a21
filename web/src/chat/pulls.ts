import { signal } from "@preact/signals";
import { ask, ServerError } from "../api/client";
import { lines } from "../api/events";
import { announce } from "../shell/announce";
import { choose, models, refresh, refreshDetails } from "./models";

/** A model that the server fetches. */
export interface Pull {
  name: string;
  file: string; // what the server says that it does
  done: number; // bytes of the file
  total: number; // 0: not known
  rate: number; // bytes a second
  problem: string; // why it ended without a model
  stop: () => void;
}

/** The models that are being fetched, and those that could not be. */
export const pulls = signal<Pull[]>([]);

/** The weight of the newest measurement in the rate that is shown. */
const freshness = 0.2;

export async function pull(name: string): Promise<void> {
  if (pulls.value.some((p) => p.name === name && !p.problem)) return;
  const abort = new AbortController();
  let now: Pull = { name, file: "", done: 0, total: 0, rate: 0, problem: "", stop: () => abort.abort() };
  const tell = (change: Partial<Pull>) => {
    now = { ...now, ...change };
    pulls.value = [...pulls.value.filter((p) => p.name !== name), now];
  };
  tell({});
  const before = new Set(models.value.map((m) => m.id));
  try {
    const response = await ask("api/pull", { model: name }, abort.signal);
    let told = performance.now();
    let success = false;
    for await (const line of lines(response.body!)) {
      if (line === "") continue;
      const said = JSON.parse(line);
      if (said.error) throw new ServerError(said.error, 200);
      success = said.status === "success";
      const [done, total] = [said.completed ?? 0, said.total ?? 0];
      const seconds = (performance.now() - told) / 1000;
      told = performance.now();
      const rate = said.status === now.file && done >= now.done && seconds > 0 ? (done - now.done) / seconds : 0;
      tell({ file: said.status, done, total, rate: now.rate ? freshness * rate + (1 - freshness) * now.rate : rate });
    }
    if (!success) throw new ServerError("The connection ended before the model was complete. Download it again: it goes on where it ended", 0);
    await refresh();
    await refreshDetails().catch(() => {});
    const fresh = models.value.find((m) => !before.has(m.id));
    if (fresh) choose(fresh.id);
    announce(`${name} is there.`);
    dismiss(name);
  } catch (failure) {
    if (abort.signal.aborted) dismiss(name);
    else tell({ problem: (failure as Error).message });
  }
}

/** A page that is closed ends what it has asked for. */
addEventListener("beforeunload", (e) => {
  if (pulls.value.some((p) => !p.problem)) e.preventDefault();
});

export function dismiss(name: string): void {
  pulls.value = pulls.value.filter((p) => p.name !== name);
}
