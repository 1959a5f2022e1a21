import { moments, type Moment } from "./live";

interface Line {
  name: string;
  kind: string; // its class
  of: (m: Moment) => number | null;
}

/** Height and width of the drawing in its own units; it is stretched to the page's width. */
const height = 64;
const width = 300;

/** Lines over what happened last, from zero to the largest value. However fast that was, it fills the width. The last line has its area filled. */
export function Chart({ title, lines, format }: { title: string; lines: Line[]; format: (v: number) => string }) {
  const all = moments.value;
  const told = lines.map((l) => {
    const of = all.filter((m) => l.of(m) !== null);
    return { ...l, of, values: of.map((m) => l.of(m)!) };
  });
  const top = Math.max(...told.flatMap((l) => l.values), 0) || 1;
  const value = (l: { values: number[] }) => (l.values.length > 0 ? format(l.values.at(-1)!) : "–");
  const drawing = told.map((l) => ({ ...l, path: drawn(l.of, l.values, top) }));
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        <span class="legend">
          {told.map((l) => (
            <span key={l.name}>
              <span class={`stroke ${l.kind}`} />
              {l.name} <b>{value(l)}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${told.map((l) => `${l.name} ${value(l)}`).join(", ")}`}
      >
        {drawing.at(-1)!.path && <path class="area" d={`${drawing.at(-1)!.path}V${height}H0Z`} />}
        {drawing.map((l) => (
          <path key={l.name} class={l.kind} d={l.path} />
        ))}
      </svg>
    </figure>
  );
}

/** The values side by side, each as wide as the time that its steps took. */
function drawn(of: Moment[], values: number[], top: number): string {
  const all = of.reduce((sum, m) => sum + m.ms, 0) || 1;
  const y = (v: number) => (height - 2 - (height - 4) * Math.min(1, v / top)).toFixed(1);
  let x = 0;
  const points = values.map((v, i) => {
    const middle = x + of[i]!.ms / 2;
    x += of[i]!.ms;
    return `L${((width * middle) / all).toFixed(1)} ${y(v)}`;
  });
  return points.length > 0 ? `M0 ${y(values[0]!)}${points.join("")}L${width} ${y(values.at(-1)!)}` : "";
}
