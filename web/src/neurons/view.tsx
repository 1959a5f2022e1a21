import { useLayoutEffect, useRef } from "preact/hooks";
import { model } from "../chat/models";
import { runs } from "../chat/runs";
import { Icon } from "../shell/icon";
import { neuronsOpen } from "../shell/neurons";
import { size } from "../shell/size";
import { Chart } from "./charts";
import { Disk } from "./disk";
import { HeatMap, percent } from "./heatmap";
import { description, moments, problem, recent, recently, type Parts, type Spent } from "./live";
import { Plan } from "./plan";
import { Shares } from "./shares";
import { Threshold } from "./threshold";

/** How far the view was scrolled when it was last shown. */
let place = 0;

/** What the model's neurons do, as it happens. */
export function Neurons() {
  const view = useRef<HTMLElement>(null);
  useLayoutEffect(() => {
    view.current!.scrollTop = place;
  }, []);
  const d = description.value;
  return (
    <aside class="neurons" aria-label="Neurons" tabIndex={0} ref={view} onScroll={(e) => (place = e.currentTarget.scrollTop)}>
      <header>
        <h2>Neurons</h2>
        <button type="button" class="icon" aria-label="Close the neurons" onClick={() => (neuronsOpen.value = false)}>
          <Icon name="close" />
        </button>
      </header>
      {problem.value && <p class="notice">{problem}</p>}
      {model.value && model.value.status !== "loaded" && (
        <p class="lead">
          {model.value.id} is {model.value.status === "loading" ? "being loaded" : "not loaded; the next message loads it"}.
        </p>
      )}
      {d && (
        <>
          <p class="lead">
            {modes[d.mode] ?? d.mode} · {d.device}
          </p>
          <Figures />
          {d.disk && <Disk />}
          <HeatMap />
          <Chart
            title="Neurons per token"
            format={percent}
            lines={[
              { name: "computed", kind: "cold", of: (m) => m.computed },
              { name: "active", kind: "accent", of: (m) => m.active },
            ]}
          />
          <Chart
            title="Read per token"
            format={size}
            lines={[
              { name: "dense", kind: "plain", of: (m) => (m.generation?.dense_bytes ? m.generation.dense_bytes / m.generation.tokens : null) },
              { name: "here", kind: "accent", of: (m) => (m.generation?.dense_bytes ? m.generation.bytes / m.generation.tokens : null) },
            ]}
          />
          <Times gpu={d.plan !== null} />
          {d.adjustable && <Threshold />}
          <Plan />
        </>
      )}
    </aside>
  );
}

const modes: Record<string, string> = {
  predict: "Predictors choose the neurons",
  exact: "Only neurons that are not zero",
  off: "Every neuron is computed",
};

function Figures() {
  const s = recent(recently);
  const last = moments.value.at(-1);
  const figures: [string, string, string][] = [
    ["Speed", s ? ((s.tokens / s.ms) * 1000).toFixed(s.tokens / s.ms > 0.01 ? 0 : 1) : "–", "tokens/s"],
    ["Active", last ? percent(last.active) : "–", "of the neurons"],
    ["Read", s && s.dense_bytes ? size(s.bytes / s.tokens) : "–", "per token"],
    ["Against dense", s && s.dense_bytes ? percent(s.bytes / s.dense_bytes) : "–", "of the bytes"],
  ];
  return (
    <section>
      {last && <h3>{runs.value.size > 0 ? "Now" : "The last answer"}</h3>}
      <dl class="figures">
        {figures.map(([name, value, unit]) => (
          <div key={name}>
            <dt>{name}</dt>
            <dd>
              <b>{value}</b> <small>{unit}</small>
            </dd>
          </div>
        ))}
      </dl>
    </section>
  );
}

/** Where a token's milliseconds went: on the processor and, where one takes part, on the GPUs. Waiting for the disk is counted with the processor's neurons. */
function Times({ gpu }: { gpu: boolean }) {
  const s = recent(recently);
  return (
    <section>
      <h3>A token's time {s && <span class="unit">{(s.ms / s.tokens).toFixed(2)} ms</span>}</h3>
      {s ? (
        <>
          {gpu && <Lane title="GPUs" parts={s.gpu && laneOf(s.gpu, s, "Hot neurons", "hot", "Waiting")} />}
          <Lane
            title={gpu ? "Processor" : ""}
            parts={laneOf(computing(s), s, gpu ? "Cold neurons" : "Neurons", "cold", gpu ? "Waiting" : "Between")}
          />
          {gpu && s.gpu && <p class="lead">Both computed at the same time for {milliseconds(s.together_ms / s.tokens)}.</p>}
        </>
      ) : (
        <p class="lead">Shown while tokens are generated.</p>
      )}
    </section>
  );
}

interface Part {
  name: string;
  kind: string; // its class
  ms: number; // of a token
}

/** What somebody did in a token's time. */
function Lane({ title, parts }: { title: string; parts: Part[] | null }) {
  if (!parts) return <p class="lead">{title}: no clock that can be read.</p>;
  return (
    <div class="lane">
      {title && <h4>{title}</h4>}
      <Shares parts={parts.map((p) => ({ name: p.name, kind: p.kind, share: p.ms, text: milliseconds(p.ms) }))} />
    </div>
  );
}

/** The processor's times, without waiting for the disk among them. */
function computing(s: Spent): Parts & { waiting_ms?: number } {
  const waiting_ms = Math.min(s.disk?.waiting_ms ?? 0, s.neurons_ms);
  return { ...s, neurons_ms: s.neurons_ms - waiting_ms, waiting_ms };
}

function laneOf(of: Parts & { waiting_ms?: number }, s: Spent, neurons: string, kind: string, rest: string): Part[] {
  const known = of.predictor_ms + of.attention_ms + of.neurons_ms + of.head_ms + of.other_ms;
  const parts = [
    { name: "Predictor", kind: "predictor", ms: of.predictor_ms },
    { name: "Attention", kind: "attention", ms: of.attention_ms },
    { name: neurons, kind, ms: of.neurons_ms },
    { name: "Head", kind: "head", ms: of.head_ms },
    { name: "Norms and sums", kind: "other", ms: of.other_ms },
    { name: "Disk", kind: "disk", ms: of.waiting_ms ?? 0 },
    { name: rest, kind: "between", ms: Math.max(0, s.ms - known - (of.waiting_ms ?? 0)) },
  ];
  return parts.filter((p) => p.ms > 0).map((p) => ({ ...p, ms: p.ms / s.tokens }));
}

function milliseconds(ms: number): string {
  return `${ms.toFixed(ms < 1 ? 3 : 2)} ms`;
}
