import { moments, window_ms, type Moment } from "./live";

interface Line {
  name: string;
  kind: string; // its class
  of: (m: Moment) => number | null;
}

/** Height and width of the drawing in its own units; it is stretched to the page's width. */
const height = 64;
const width = 300;

/** Lines over the last minute, from zero to the largest value or most. */
export function Chart({ title, lines, most, format }: { title: string; lines: Line[]; most?: number; format: (v: number) => string }) {
  const all = moments.value;
  const now = all.at(-1)?.time ?? 0;
  const top = most ?? Math.max(...all.flatMap((m) => lines.map((l) => l.of(m) ?? 0)), 0);
  const last = (l: Line) => all.findLast((m) => l.of(m) !== null);
  const told = lines.map((l) => ({ ...l, m: last(l) })).map((l) => ({ ...l, value: l.m ? format(l.of(l.m)!) : "–" }));
  return (
    <figure class="chart">
      <figcaption>
        <span>{title}</span>
        <span class="legend">
          {told.map((l) => (
            <span key={l.name}>
              <span class={`stroke ${l.kind}`} />
              {l.name} <b>{l.value}</b>
            </span>
          ))}
        </span>
      </figcaption>
      <svg
        viewBox={`0 0 ${width} ${height}`}
        preserveAspectRatio="none"
        role="img"
        aria-label={`${title}: ${told.map((l) => `${l.name} ${l.value}`).join(", ")}`}
      >
        {lines.map((l) => (
          <path key={l.name} class={l.kind} d={drawn(l, all, now, top || 1)} />
        ))}
      </svg>
    </figure>
  );
}

/** After a pause of so many milliseconds a line begins anew. */
const pause = 1500;

function drawn(l: Line, all: Moment[], now: number, top: number): string {
  let before = -Infinity;
  return all
    .map((m) => {
      const v = l.of(m);
      if (v === null) return "";
      const x = width * (1 - (now - m.time) / window_ms);
      const y = height - 2 - (height - 4) * Math.min(1, v / top);
      const command = m.time - before > pause ? `M${x.toFixed(1)} ${y.toFixed(1)}l.5 0L` : "L";
      before = m.time;
      return `${command}${x.toFixed(1)} ${y.toFixed(1)}`;
    })
    .join("");
}
