import { signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { running, shown } from "../chat/state";
import { compare, description, setThreshold, threshold, type Comparison } from "./live";
import { percent } from "./heatmap";

/** How far the slider goes from where it was first, in logits. */
const reach = 6;

/** What was measured of the running model, the newest first. */
const measured = signal<Comparison[]>([]);
const mostMeasured = 6;

/** Read by models that have said nothing yet. */
const usualText =
  "Once upon a time there was an old king who lived in a castle by the sea with his three sons. The eldest was brave, the second was clever, and the youngest was kind to every living thing that came to the door.";

/** The text of the conversation, to compare with: what the model is used for counts. */
function text(): string {
  const said = shown.value.map((m) => m.content).join("\n\n");
  return said.length > 200 ? said : `${usualText}\n\n${said}`;
}

/** The threshold of the running model's predictors, and what moving it changes. */
export function Threshold() {
  const from = useSignal(threshold.value); // the middle of the slider
  const held = useSignal<number | null>(null); // where the user holds it
  const busy = useSignal(false);
  const problem = useSignal("");
  useEffect(() => {
    from.value = description.value!.threshold;
    measured.value = measured.value.filter(() => false);
  }, [description.value!.model]);
  const value = held.value ?? threshold.value;

  const measure = async (change?: number) => {
    if (busy.value) return;
    busy.value = true;
    problem.value = "";
    const abort = new AbortController();
    try {
      if (change !== undefined) await setThreshold(change);
      held.value = null;
      const c = await compare(text(), abort.signal);
      measured.value = [c, ...measured.value.filter((o) => o.threshold !== c.threshold)].slice(0, mostMeasured);
    } catch (failure) {
      problem.value = (failure as Error).message;
    }
    held.value = null;
    busy.value = false;
  };
  return (
    <section class="threshold">
      <h3>Threshold</h3>
      <p class="lead">
        From which logit on a predicted neuron is computed. Higher is faster and further from the dense model. It holds for everybody this server
        answers.
      </p>
      <div class="slide">
        <input
          type="range"
          aria-label="Sparse threshold"
          min={(from.value - reach).toFixed(1)}
          max={(from.value + reach).toFixed(1)}
          step={0.1}
          value={value}
          disabled={busy.value}
          onInput={(e) => (held.value = Number(e.currentTarget.value))}
          onChange={(e) => measure(Number(e.currentTarget.value))}
        />
        <output>{signed(value)}</output>
      </div>
      <div class="buttons">
        {running.value && <small>Measuring takes turns with the answer.</small>}
        <button type="button" class="quiet" disabled={busy.value} onClick={() => measure()}>
          {busy.value ? "Measuring…" : "Measure here"}
        </button>
      </div>
      {problem.value && (
        <p class="notice" role="alert">
          {problem}
        </p>
      )}
      {measured.value.length > 0 && (
        <div class="scroll" tabIndex={0} role="group" aria-label="Measured thresholds">
          <table>
            <thead>
              <tr>
                <th>Threshold</th>
                <th>Speed</th>
                <th>× dense</th>
                <th>KL divergence</th>
                <th>Same token</th>
              </tr>
            </thead>
            <tbody>
              {measured.value.map((c) => (
                <tr key={c.threshold} class={c.threshold === threshold.value ? "here" : ""}>
                  <td>{signed(c.threshold)}</td>
                  <td>{(1000 / c.ms).toFixed(c.ms > 100 ? 1 : 0)} tokens/s</td>
                  <td>{(c.dense_ms / c.ms).toFixed(2)}</td>
                  <td>{c.divergence.toPrecision(2)}</td>
                  <td>{percent(c.same_top)}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </div>
      )}
    </section>
  );
}

function signed(v: number): string {
  return (v < 0 ? "−" : "") + Math.abs(v).toFixed(1);
}
