import { signal, useSignal } from "@preact/signals";
import { apiKey } from "../api/client";
import { chosen, defaults, groups, instructions, noInstructions, probabilities, within, type Instructions, type Setting } from "../chat/settings";
import { Sheet } from "./sheet";

export const settingsOpen = signal(false);

export function SettingsSheet() {
  const i = instructions.value;
  const set = (change: Partial<Instructions>) => (instructions.value = { ...i, ...change });
  const changed = Object.keys(chosen.value).length > 0;
  return (
    <Sheet open={settingsOpen} title="Settings" kind="side">
      <form onSubmit={(e) => e.preventDefault()}>
        <p class="lead">They apply from the next answer on and are kept in this browser. An empty field means the server's own value.</p>
        <fieldset>
          <legend>Instructions</legend>
          <TextSetting label="System message" value={i.system} rows={4} change={(system) => set({ system })} />
          <label class="setting">
            <span>Thinking</span>
            <select value={i.thinking} onChange={(e) => set({ thinking: e.currentTarget.value as Instructions["thinking"] })}>
              <option value="">As the model does</option>
              <option value="on">On</option>
              <option value="off">Off</option>
            </select>
          </label>
          <label class="setting check">
            <input type="checkbox" checked={probabilities.value} onChange={(e) => (probabilities.value = e.currentTarget.checked)} />
            <span>
              Token probabilities
              <small>Answers show how likely each token was, and on hover what else was likely</small>
            </span>
          </label>
        </fieldset>
        {groups.map((g) => (
          <fieldset key={g.title}>
            <legend>{g.title}</legend>
            {g.settings.map((s) => (
              <NumberSetting key={s.name} setting={s} />
            ))}
          </fieldset>
        ))}
        <fieldset>
          <legend>Format</legend>
          <TextSetting label="Stop texts, one a line" value={i.stop} rows={2} change={(stop) => set({ stop })} />
          <TextSetting label="JSON Schema that answers keep to" value={i.schema} rows={3} code change={(schema) => set({ schema })} />
          <TextSetting label="Tools, as OpenAI's API takes them" value={i.tools} rows={3} code change={(tools) => set({ tools })} />
        </fieldset>
        <fieldset>
          <legend>Server</legend>
          <label class="setting">
            <span>API key</span>
            <input type="password" autocomplete="off" value={apiKey.value} onChange={(e) => (apiKey.value = e.currentTarget.value.trim())} />
          </label>
        </fieldset>
        <div class="buttons">
          <button
            type="button"
            class="quiet"
            disabled={!changed && instructions.value === noInstructions}
            onClick={() => {
              chosen.value = {};
              instructions.value = noInstructions;
            }}
          >
            Use the server's values
          </button>
        </div>
      </form>
    </Sheet>
  );
}

function NumberSetting({ setting: s }: { setting: Setting }) {
  const own = chosen.value[s.name];
  const usual = defaults.value[s.name];
  const typed = useSignal<string | null>(null); // what is not taken yet: it stays when something else is drawn
  const change = (text: string) => {
    typed.value = null;
    const { [s.name]: _, ...others } = chosen.value;
    const value = Number(text);
    chosen.value = text.trim() === "" || !Number.isFinite(value) ? others : { ...others, [s.name]: within(s, value) };
  };
  const hint = `hint-${s.name}`;
  return (
    <label class="setting">
      <span>{s.label}</span>
      <input
        type="number"
        min={s.min}
        max={s.max}
        step={s.step}
        placeholder={usual === undefined ? "" : String(Number(usual.toPrecision(6)))}
        value={typed.value ?? own ?? ""}
        aria-describedby={hint}
        onInput={(e) => (typed.value = e.currentTarget.value)}
        onChange={(e) => change(e.currentTarget.value)}
      />
      <small id={hint}>{s.hint}</small>
    </label>
  );
}

function TextSetting({
  label,
  value,
  rows,
  code = false,
  change,
}: {
  label: string;
  value: string;
  rows: number;
  code?: boolean;
  change: (text: string) => void;
}) {
  return (
    <label class="setting wide">
      <span>{label}</span>
      <textarea rows={rows} class={code ? "code" : ""} spellcheck={!code} value={value} onInput={(e) => change(e.currentTarget.value)} />
    </label>
  );
}
