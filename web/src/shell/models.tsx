import { signal } from "@preact/signals";
import { canLoad, choose, load, model, models, modelsError, refresh, unload, type Model } from "../chat/models";
import { Icon } from "./icon";
import { Sheet } from "./sheet";

const modelsOpen = signal(false);

export function ModelButton() {
  return (
    <button
      type="button"
      class="model"
      aria-haspopup="dialog"
      onClick={() => {
        void refresh();
        modelsOpen.value = true;
      }}
    >
      <span class="hidden">Model: </span>
      <span class="name">{model.value?.id ?? "No model"}</span>
      <Icon name="down" />
    </button>
  );
}

const states = { loaded: "", unloaded: "not loaded", loading: "loading…", failed: "failed to load" };

export function ModelsSheet() {
  return (
    <Sheet open={modelsOpen} title="Models" kind="middle">
      {modelsError.value && (
        <p class="notice" role="alert">
          {modelsError}
        </p>
      )}
      <ul class="models">
        {models.value.map((m) => (
          <li key={m.id} class={m.id === model.value?.id ? "here" : ""}>
            <button
              type="button"
              class="pick"
              aria-pressed={m.id === model.value?.id}
              onClick={() => {
                choose(m);
                modelsOpen.value = false;
              }}
            >
              <span class={`state ${m.status}`} />
              <span class="name">{m.id}</span>
              <small>{facts(m)}</small>
            </button>
            {canLoad.value && <LoadButton model={m} />}
          </li>
        ))}
      </ul>
    </Sheet>
  );
}

function LoadButton({ model: m }: { model: Model }) {
  const loaded = m.status === "loaded";
  return (
    <button
      type="button"
      class="quiet"
      aria-label={`${loaded ? "Unload" : "Load"} ${m.id}`}
      disabled={m.status === "loading"}
      onClick={() => (loaded ? unload(m) : load(m))}
    >
      {loaded ? "Unload" : "Load"}
    </button>
  );
}

function facts(m: Model): string {
  const parts = [];
  if (states[m.status]) parts.push(states[m.status]);
  if (m.context) parts.push(`${m.context.toLocaleString("en")} tokens of context`);
  if (m.bytes) parts.push(`${(m.bytes / 2 ** 30).toFixed(1)} GiB`);
  return parts.join(" · ");
}
