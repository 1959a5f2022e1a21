import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { theme } from "../shell/theme";
import { description, shares } from "./live";

/** Rows of the picture for each layer: one of them is a gap. */
const rowsPerLayer = 4;

/** Heights of a layer on the page, in CSS pixels. */
const leastHeight = 5;
const mostHeight = 18;
const usualHeight = 300; // of the whole

/** Layers by neurons: the brighter, the more tokens needed them. */
export function HeatMap() {
  const canvas = useRef<HTMLCanvasElement>(null);
  const hot = useRef<HTMLSpanElement>(null);
  const cold = useRef<HTMLSpanElement>(null);
  const at = useSignal("");
  const d = description.value!;
  const onGPU = d.layers.some((l) => l.gpu >= 0);
  const all = shares.value;
  const columns = Math.max(1, ...all.map((s) => s.length));
  const hotColumns = (l: number) => Math.round((d.layers[l]!.hot * columns) / (d.layers[l]!.experts ?? d.layers[l]!.neurons));

  const draw = () => {
    const context = canvas.current?.getContext("2d");
    if (!context) return; // nothing is shown yet
    const colour = (e: HTMLElement) =>
      getComputedStyle(e)
        .backgroundColor.match(/[\d.]+/g)!
        .map(Number);
    const colours = { hot: hot.current ? colour(hot.current) : [], cold: colour(cold.current!) };
    const picture = context.createImageData(columns, Math.max(1, all.length * rowsPerLayer));
    all.forEach((row, l) => {
      for (let x = 0; x < columns; x++) {
        const share = row[Math.floor((x * row.length) / columns)]!;
        const [r, g, b] = x < hotColumns(l) ? colours.hot : colours.cold;
        for (let y = 0; y < rowsPerLayer - 1; y++) {
          picture.data.set([r!, g!, b!, 12 + 243 * Math.sqrt(share)], 4 * ((l * rowsPerLayer + y) * columns + x));
        }
      }
    });
    context.putImageData(picture, 0, 0);
  };
  useEffect(draw, [all, theme.value, d]);
  useEffect(() => {
    const dark = matchMedia("(prefers-color-scheme: dark)");
    dark.addEventListener("change", draw);
    return () => dark.removeEventListener("change", draw);
  });

  const over = (e: PointerEvent) => {
    const box = canvas.current!.getBoundingClientRect();
    const l = Math.floor(((e.clientY - box.top) / box.height) * all.length);
    const row = all[l];
    if (!row) return (at.value = "");
    const i = Math.min(row.length - 1, Math.floor(((e.clientX - box.left) / box.width) * row.length));
    const n = d.layers[l]!.neurons;
    const [from, to] = [Math.ceil((i * n) / row.length), Math.ceil(((i + 1) * n) / row.length) - 1];
    const where = from < d.layers[l]!.hot ? `GPU ${d.layers[l]!.gpu}` : "CPU";
    at.value = `Layer ${l}, neurons ${from}–${to} on the ${where}: needed by ${percent(row[i]!)} of tokens`;
  };
  const height = Math.min(mostHeight, Math.max(leastHeight, usualHeight / d.layers.length)) * d.layers.length;
  return (
    <figure class="heatmap">
      {all.length > 0 ? (
        <canvas
          ref={canvas}
          width={columns}
          height={all.length * rowsPerLayer}
          style={{ height: `${height}px` }}
          role="img"
          aria-label={`Heat map of ${d.layers.length} layers by neurons`}
          onPointerMove={over}
          onPointerLeave={() => (at.value = "")}
        />
      ) : (
        <p class="empty" style={{ height: `${height}px` }}>
          The neurons appear while the model answers.
        </p>
      )}
      <figcaption>
        {at.value ? (
          <span>{at}</span>
        ) : (
          <span>{d.layers.length === 1 ? "1 layer" : `${d.layers.length} layers`}, each from its hottest neuron at the left to its coldest</span>
        )}
        <span class="legend">
          {onGPU && (
            <span>
              <span ref={hot} class="swatch hot" />
              hot, GPU
            </span>
          )}
          <span>
            <span ref={cold} class="swatch cold" />
            {onGPU ? "cold, CPU" : "CPU"}
          </span>
          <span>
            <span class="swatch skipped" />
            skipped
          </span>
        </span>
      </figcaption>
    </figure>
  );
}

export function percent(share: number): string {
  const p = 100 * share;
  return `${p >= 10 || p === 0 ? p.toFixed(0) : p.toFixed(1)} %`;
}
