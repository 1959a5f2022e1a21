import { size } from "../shell/size";
import { description, type Layer } from "./live";

/** Where the model lies: neighbours that lie alike share a row. */
export function Plan() {
  const d = description.value!;
  const rows: { from: number; to: number; layer: Layer }[] = [];
  d.layers.forEach((layer, l) => {
    const last = rows.at(-1);
    if (last && alike(last.layer, layer)) last.to = l;
    else rows.push({ from: l, to: l, layer });
  });
  const timed = d.layers.some((y) => y.expected);
  return (
    <section>
      <h3>Plan</h3>
      {d.plan ? (
        d.plan.gpus.map((g, i) => (
          <p key={i} class="lead">
            GPU {i}: {size(g.planned)} planned of a budget of {size(g.budget)}
            {i === 0 && d.plan!.tokens_per_second > 0 && `; ${d.plan!.tokens_per_second.toFixed(1)} tokens/s expected`}
          </p>
        ))
      ) : (
        <p class="lead">No GPU takes part: everything is stored in RAM and computed by the processor.</p>
      )}
      <div class="scroll" tabIndex={0} role="group" aria-label="Where layers are stored">
        <table>
          <thead>
            <tr>
              <th>Layers</th>
              <th>Mode</th>
              <th>Attention</th>
              <th>Hot neurons</th>
              <th>Neurons</th>
              <th>Size</th>
              {timed && <th>Expected</th>}
            </tr>
          </thead>
          <tbody>
            {rows.map(({ from, to, layer: y }) => (
              <tr key={from}>
                <td>{from === to ? from : `${from}–${to}`}</td>
                <td>{y.mode}</td>
                <td>{y.attention_on_gpu ? `GPU ${y.gpu}` : "RAM"}</td>
                <td>{y.hot > 0 ? `${y.hot.toLocaleString("en")}${y.experts ? ` of ${y.experts} experts` : ""} on GPU ${y.gpu}` : "–"}</td>
                <td>{y.neurons.toLocaleString("en")}</td>
                <td>{size(y.dense_bytes)}</td>
                {timed && <td title={y.expected && told(y.expected)}>{y.expected ? `${y.expected.ms.toFixed(3)} ms` : "–"}</td>}
              </tr>
            ))}
          </tbody>
        </table>
      </div>
    </section>
  );
}

/** What a layer's time is made of. */
function told(e: NonNullable<Layer["expected"]>): string {
  const ms = (v: number) => v.toFixed(3);
  return `attention and predictor ${ms(e.dense_ms)} ms, hot neurons ${ms(e.hot_ms)} at the same time as cold ones ${ms(e.cold_ms)}, waiting ${ms(e.wait_ms)}`;
}

function alike(a: Layer, b: Layer): boolean {
  return JSON.stringify(a) === JSON.stringify(b);
}
