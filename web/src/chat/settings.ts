import { effect, signal } from "@preact/signals";
import { askJSON, numberOf } from "../api/client";
import { isFlag, stored } from "../shell/stored";
import { isObject } from "./check";
import { loadedModel } from "./models";

/** A number that says how tokens are drawn, under its name in requests. */
export interface Setting {
  name: string;
  label: string;
  hint: string;
  min: number;
  max: number;
  step: number;
}

export interface SettingGroup {
  title: string;
  settings: Setting[];
}

const setting = (name: string, label: string, min: number, max: number, step: number, hint: string): Setting => ({
  name,
  label,
  hint,
  min,
  max,
  step,
});

export const groups: SettingGroup[] = [
  {
    title: "Answer",
    settings: [
      setting("max_tokens", "Longest answer", -1, 1 << 20, 1, "In tokens; −1: until the model or the context ends"),
      setting("seed", "Seed", -1, 2 ** 31, 1, "The same seed gives the same answer; −1: another each time"),
    ],
  },
  {
    title: "Sampling",
    settings: [
      setting("temperature", "Temperature", 0, 5, 0.05, "Lower is more predictable; 0 takes the likeliest token"),
      setting("top_k", "Top-k", 0, 1000, 1, "Only the k likeliest tokens; 0: all"),
      setting("top_p", "Top-p", 0, 1, 0.01, "The likeliest tokens that add up to this probability; 1: all"),
      setting("min_p", "Min-p", 0, 1, 0.01, "Only tokens this likely, compared with the likeliest"),
      setting("typical_p", "Typical-p", 0, 1, 0.01, "Tokens that surprise as much as expected; 1: all"),
      setting("top_n_sigma", "Top-nσ", -1, 10, 0.1, "Only logits within n standard deviations of the best; −1: all"),
      setting("dynatemp_range", "Temperature range", 0, 5, 0.05, "How far the temperature follows the entropy"),
      setting("xtc_probability", "XTC probability", 0, 1, 0.01, "How often the likeliest tokens are left out"),
      setting("xtc_threshold", "XTC threshold", 0, 1, 0.01, "From which probability on they are"),
    ],
  },
  {
    title: "Repetition",
    settings: [
      setting("repeat_penalty", "Repeat penalty", 0.1, 2, 0.01, "Above 1: tokens that were there become less likely"),
      setting("repeat_last_n", "Looks back", -1, 1 << 20, 1, "How many tokens the penalty looks back; −1: the whole context"),
      setting("presence_penalty", "Presence penalty", -2, 2, 0.05, "Against tokens that were there at all"),
      setting("frequency_penalty", "Frequency penalty", -2, 2, 0.05, "Against tokens by how often they were there"),
      setting("dry_multiplier", "DRY strength", 0, 5, 0.05, "Against repeating sequences; 0: off"),
      setting("dry_base", "DRY base", 1, 4, 0.05, "How fast it grows with their length"),
      setting("dry_allowed_length", "DRY free length", 0, 100, 1, "Sequences up to this length are free"),
    ],
  },
  {
    title: "Mirostat",
    settings: [
      setting("mirostat", "Version", 0, 2, 1, "2 holds the surprise of the text constant; 0: off"),
      setting("mirostat_tau", "Target entropy", 0, 20, 0.1, "Surprise in bits a token"),
      setting("mirostat_eta", "Rate", 0, 1, 0.01, "How fast it is corrected"),
    ],
  },
];

const byName = new Map(groups.flatMap((g) => g.settings.map((s) => [s.name, s])));

/** A number as the setting takes it. */
export function within(s: Setting, value: number): number {
  return Math.min(s.max, Math.max(s.min, value));
}

function readChosen(v: unknown): Record<string, number> | undefined {
  if (!isObject(v)) return undefined;
  const all: Record<string, number> = {};
  for (const [name, value] of Object.entries(v)) {
    const s = byName.get(name);
    if (s && typeof value === "number") all[name] = within(s, value);
  }
  return all;
}

/** What differs from the server's own settings. */
export const chosen = stored<Record<string, number>>("sampling", {}, readChosen);

/** What answers are held to, beside numbers. */
export interface Instructions {
  system: string;
  stop: string; // texts that end an answer, one a line
  tools: string; // OpenAI's definitions, a JSON list
  schema: string; // JSON Schema that answers keep to
  thinking: "" | "on" | "off"; // for templates that ask
}

export const noInstructions: Instructions = { system: "", stop: "", tools: "", schema: "", thinking: "" };

function readInstructions(v: unknown): Instructions | undefined {
  if (!isObject(v)) return undefined;
  const text = (name: string) => (typeof v[name] === "string" ? v[name] : "");
  const thinking = v.thinking === "on" || v.thinking === "off" ? v.thinking : "";
  return { system: text("system"), stop: text("stop"), tools: text("tools"), schema: text("schema"), thinking };
}

export const instructions = stored<Instructions>("instructions", noInstructions, readInstructions);

/** Whether answers come with the probabilities of their tokens. */
export const probabilities = stored("probabilities", false, isFlag);

/** The seed by which llama-server says that each request draws its own. */
const drawnAnew = 0xffffffff;

/** How many other tokens are shown with each. */
const topLogprobs = 5;

/** The server's own settings. */
export const defaults = signal<Record<string, number>>({});

/** Tokens; 0: not known. */
export const contextSize = signal(0);

/** Whether the model is the one in the program, which cannot chat. */
export const demo = signal(false);

/** Whether the model can be shown pictures; null: not known, as before it is loaded. */
export const sees = signal<boolean | null>(null);

/** Asks for the settings of the model that answers, when it is loaded. */
effect(() => {
  const name = loadedModel.value;
  defaults.value = {};
  contextSize.value = 0;
  demo.value = false;
  sees.value = null;
  if (name) void loadDefaults(name).catch(() => {}); // the fields then show no defaults
});

async function loadDefaults(name: string): Promise<void> {
  const props = await askJSON<any>(`props?model=${encodeURIComponent(name)}&autoload=false`);
  if (name !== loadedModel.value) return;
  demo.value = props.demo === true;
  sees.value = typeof props.modalities?.vision === "boolean" ? props.modalities.vision : null;
  const g = props.default_generation_settings ?? {};
  contextSize.value = numberOf(g.n_ctx);
  const params: Record<string, number> = {};
  for (const [name, value] of Object.entries(g.params ?? {})) if (typeof value === "number") params[name] = value;
  if (typeof params.n_predict === "number") params.max_tokens = params.n_predict;
  if (params.seed! >= drawnAnew) params.seed = -1;
  defaults.value = params;
}

/** The fields of a request that the settings ask for. Fails where a text among them cannot be read. */
export function fields(): Record<string, unknown> {
  const all: Record<string, unknown> = { ...chosen.value };
  const { stop, tools, schema, thinking } = instructions.value;
  const stops = stop.split("\n").filter((s) => s !== "");
  if (stops.length > 0) all.stop = stops;
  if (tools.trim()) all.tools = parse(tools, "The tools");
  if (schema.trim()) all.response_format = { type: "json_schema", json_schema: { name: "answer", schema: parse(schema, "The JSON Schema") } };
  if (thinking) all.chat_template_kwargs = { enable_thinking: thinking === "on" };
  if (probabilities.value && !all.tools) Object.assign(all, { logprobs: true, top_logprobs: topLogprobs });
  return all;
}

function parse(text: string, what: string): unknown {
  try {
    return JSON.parse(text);
  } catch {
    throw new Error(`${what} in the settings cannot be read as JSON. Mend the field there, or empty it.`);
  }
}
