import { useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import {
  change,
  changing,
  choose,
  details,
  model,
  models,
  modelsError,
  modelsOpen,
  refresh,
  refreshDetails,
  server,
  tooLarge,
  type Model,
  type Published,
} from "../chat/models";
import { dismiss, pull, pulls, type Pull } from "../chat/pulls";
import { Icon } from "./icon";
import { Sheet } from "./sheet";
import { size } from "./size";

export function ModelButton() {
  return (
    <button type="button" class="model" aria-haspopup="dialog" onClick={() => (modelsOpen.value = true)}>
      <span class="hidden">Model: </span>
      <span class="name">{model.value?.id ?? "No model"}</span>
      <Icon name="down" />
    </button>
  );
}

const states = { loaded: "", unloaded: "not loaded", loading: "loading…", failed: "failed to load; the server's log says why" };

export function ModelsSheet() {
  return (
    <Sheet open={modelsOpen} title="Models" kind="middle">
      <Models />
    </Sheet>
  );
}

/** From how many models on there is a field to search them. */
const many = 6;

function Models() {
  const text = useSignal("");
  useEffect(() => {
    void refresh();
    void refreshDetails().catch(() => {}); // sizes and types are not shown, then
  }, []);
  const pulls = server.value?.pulls ?? false;
  const words = text.value.toLowerCase().split(/\s+/).filter(Boolean);
  const fits = (...of: string[]) => words.every((w) => of.some((o) => o.toLowerCase().includes(w)));
  const found = models.value.filter((m) => fits(m.id, ...(details.value[m.id]?.kind ?? [])));
  return (
    <>
      {(pulls || models.value.length >= many) && (
        <input
          class="search"
          type="search"
          aria-label="Search"
          placeholder={pulls ? "Search, or user/repo to download" : "Search"}
          spellcheck={false}
          autocapitalize="off"
          value={text.value}
          onInput={(e) => (text.value = e.currentTarget.value)}
        />
      )}
      {modelsError.value && (
        <p class="notice" role="alert">
          {modelsError}
        </p>
      )}
      {found.length > 0 && (
        <ul class="models" aria-label="Models of this server">
          {found.map((m) => (
            <Row key={m.id} model={m} />
          ))}
        </ul>
      )}
      {found.length === 0 && <p class="lead">{words.length > 0 ? "The server has no such model." : "The server has no model yet."}</p>}
      {pulls && <Fetch text={text.value.trim()} fits={fits} />}
      {server.value && !server.value.several && (
        <p class="lead">
          This server has one model. For another one start it with its name, such as <code>powerinfer serve qwen3:4b</code>; started with{" "}
          <code>powerinfer serve --models-dir FOLDER</code> it serves several and downloads others from here.
        </p>
      )}
    </>
  );
}

function Row({ model: m }: { model: Model }) {
  const here = m.id === model.value?.id;
  return (
    <li class={here ? "here" : ""}>
      <button
        type="button"
        class="pick"
        aria-pressed={here}
        onClick={() => {
          choose(m.id);
          modelsOpen.value = false;
        }}
      >
        <span class={`state ${m.status}`} />
        <span class="name">{m.id}</span>
        <small>{facts(m)}</small>
      </button>
      {server.value?.several && <LoadButton model={m} />}
    </li>
  );
}

function LoadButton({ model: m }: { model: Model }) {
  const loaded = m.status === "loaded";
  const busy = changing.value[m.id];
  const label = busy === "unload" ? "Unloading…" : loaded ? "Unload" : busy ? "Loading…" : "Load";
  return (
    <button
      type="button"
      class="quiet"
      aria-label={`${label} ${m.id}`}
      disabled={m.status === "loading" || !!busy}
      onClick={() => change(m.id, loaded ? "unload" : "load")}
    >
      {label}
    </button>
  );
}

function facts(m: Model): string {
  const d = details.value[m.id];
  const parts = [];
  if (states[m.status]) parts.push(states[m.status]);
  if (d) parts.push(...d.kind, size(d.bytes), tooLarge(d.bytes));
  if (m.context) parts.push(`${m.context.toLocaleString("en")} tokens of context`);
  return parts.filter(Boolean).join(" · ");
}

/** Fetches models of the hub: one that is named, and those that the server knows. */
function Fetch({ text, fits }: { text: string; fits: (...of: string[]) => boolean }) {
  const known = server.value!.published.filter((p) => fits(p.name, p.at, p.about));
  const there = (name: string) => models.value.some((m) => m.id.toLowerCase() === name.toLowerCase());
  const named = text !== "" && !/\s/.test(text) && !there(text) && !known.some((p) => p.name === text || p.at === text);
  return (
    <section class="fetch" aria-label="Download a model">
      <h3>Download from Hugging Face</h3>
      {pulls.value.map((p) => (
        <PullView key={p.name} pull={p} />
      ))}
      <ul class="models">
        {named && <FetchRow name={text} at={text} facts="" />}
        {known.map((p) => (
          <FetchRow key={p.name} name={p.name} at={p.at} facts={told(p)} there={there(p.at)} />
        ))}
      </ul>
      {!named && (
        <p class="lead">
          For any other GGUF model, type its name above: <code>user/repo</code>, or <code>user/repo:Q4_K_M</code> for one type.
        </p>
      )}
    </section>
  );
}

function told(p: Published): string {
  return [p.at, p.bytes > 0 ? size(p.bytes) : "", tooLarge(p.bytes), p.about].filter(Boolean).join(" · ");
}

function FetchRow({ name, at, facts, there = false }: { name: string; at: string; facts: string; there?: boolean }) {
  const busy = pulls.value.some((p) => p.name === at && !p.problem);
  const label = there ? "Downloaded" : busy ? "Downloading…" : "Download";
  return (
    <li>
      <div class="pick">
        <Icon name="download" />
        <span class="name">{name}</span>
        {facts && <small>{facts}</small>}
      </div>
      <button type="button" class="quiet" aria-label={`${label} ${name}`} disabled={busy || there} onClick={() => pull(at)}>
        {label}
      </button>
    </li>
  );
}

function PullView({ pull: p }: { pull: Pull }) {
  if (p.problem) {
    return (
      <p class="notice" role="alert">
        <span>
          {p.name}: {p.problem}
        </span>
        <button type="button" class="icon small" aria-label="Dismiss" onClick={() => dismiss(p.name)}>
          <Icon name="close" />
        </button>
      </p>
    );
  }
  const part = p.total > 0 ? `${size(p.done)} of ${size(p.total)}${p.rate > 0 ? ` · ${size(p.rate)}/s` : ""}` : p.file || "asking the hub…";
  return (
    <div class="pull">
      <label>
        <b>{p.name}</b> <small>{part}</small>
        {p.total > 0 ? <progress value={p.done} max={p.total} /> : <progress />}
      </label>
      <button
        type="button"
        class="quiet"
        aria-label={`Stop the download of ${p.name}`}
        title="The part that has come is kept, and the next download goes on from there"
        onClick={p.stop}
      >
        Stop
      </button>
    </div>
  );
}
