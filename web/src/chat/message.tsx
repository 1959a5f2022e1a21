import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import type { Call } from "../api/chat";
import { CopyButton } from "../shell/copy";
import { Icon, type IconName } from "../shell/icon";
import { siblings, type Message } from "./conversation";
import { Markdown } from "./markdown";
import { model } from "./models";
import { Pictures } from "./pictures";
import { contextSize, probabilities } from "./settings";
import { current, discard, edit, giveResult, goOn, retry, running, showBranch } from "./state";
import { Tokens } from "./tokens";

export function MessageView({ message: m, live }: { message: Message; live: boolean }) {
  const editing = useSignal(false);
  const asTokens = useSignal<boolean | null>(null); // null: as the settings say
  if (editing.value) return <Editor message={m} done={() => (editing.value = false)} />;
  const tokens = m.tokens && (asTokens.value ?? probabilities.value);
  const who = { user: "You", assistant: "Model", tool: "Tool" }[m.role];
  return (
    <li class={`message ${m.role}`}>
      <h2 class="hidden">{who}</h2>
      {m.pictures && <Pictures all={m.pictures} />}
      {m.attachments?.map((a, i) => (
        <details key={i} class="attachment">
          <summary>
            <Icon name="file" />
            {a.name}
          </summary>
          <pre tabIndex={0}>{a.text}</pre>
        </details>
      ))}
      {m.role === "assistant" ? <Answer message={m} live={live} tokens={!!tokens} /> : m.content && <div class="said">{m.content}</div>}
      {!live && (
        <div class="actions">
          <Branches message={m} />
          <CopyButton text={() => m.content} label="Copy" />
          {m.role !== "tool" && <Action icon="edit" label="Edit" act={() => (editing.value = true)} off={!!running.value} />}
          {m.role === "assistant" && <Action icon="retry" label="Retry" act={() => retry(m)} off={!!running.value} />}
          {m.tokens && <Action icon="tokens" label={tokens ? "Show as text" : "Show token probabilities"} act={() => (asTokens.value = !tokens)} />}
          <Action icon="trash" label="Delete" act={() => discard(m)} off={!!running.value} />
          <Took message={m} />
        </div>
      )}
    </li>
  );
}

function Action({ icon, label, act, off = false }: { icon: IconName; label: string; act: () => void; off?: boolean }) {
  return (
    <button type="button" class="icon small" aria-label={label} title={label} onClick={act} disabled={off}>
      <Icon name={icon} />
    </button>
  );
}

function Answer({ message: m, live, tokens }: { message: Message; live: boolean; tokens: boolean }) {
  const nothing = !m.content && !m.reasoning && !m.calls;
  return (
    <>
      {m.reasoning && !tokens && <Thoughts text={m.reasoning} thinking={live && !m.content && !m.calls} />}
      {tokens ? <Tokens tokens={m.tokens!} /> : m.content && <Markdown text={m.content} live={live} />}
      {live && nothing && <Waiting />}
      {m.calls?.map((c, i) => (
        <CallView key={i} call={c} />
      ))}
      {!live && m.finish === "tool_calls" && m.calls && <Results message={m} calls={m.calls} />}
      {m.error && (
        <p class="notice" role="alert">
          {m.error}
        </p>
      )}
      {!live && <Cut message={m} />}
    </>
  );
}

/** What can be done about an answer that was cut off. */
function Cut({ message: m }: { message: Message }) {
  const cut = !m.finish || m.finish === "length" || m.finish === "stopped" || (m.finish === "error" && m.content);
  if (!cut || m.calls || !isLast(m)) return null;
  if (isFull(m)) {
    return (
      <p class="lead">
        The context of {contextSize.value.toLocaleString("en")} tokens is full. A new message goes on without the oldest ones; started with a larger{" "}
        <code>-c</code>, the server keeps more.
      </p>
    );
  }
  return (
    <button type="button" class="quiet" onClick={() => goOn(m)} disabled={!!running.value}>
      Continue
    </button>
  );
}

/** Fewer tokens are no room for going on. */
const leastRoom = 8;

/** Whether an answer ended where the context does. */
function isFull(m: Message): boolean {
  if (!m.timings || m.finish !== "length" || m.model !== model.value?.id || contextSize.value === 0) return false;
  const { cache_n = 0, prompt_n = 0, predicted_n = 0 } = m.timings;
  return cache_n + prompt_n + predicted_n > contextSize.value - leastRoom;
}

function isLast(m: Message): boolean {
  return !Object.values(current.value.messages).some((o) => o.parent === m.id);
}

/** What is shown before the first token: how much of the pictures has been looked at, and of the prompt been read. */
function Waiting() {
  const p = running.value?.progress.value;
  if (!p || p.total === 0)
    return <p class="waiting">{model.value?.status === "loading" ? "The model is being loaded…" : "Waiting for the model…"}</p>;
  if (p.pictures)
    return (
      <p class="waiting">
        <label>
          Looking at the pictures
          <progress value={p.pictures.processed} max={p.pictures.total} />
        </label>
      </p>
    );
  return (
    <p class="waiting">
      <label>
        Reading {p.processed.toLocaleString("en")} of {p.total.toLocaleString("en")} tokens
        <progress value={p.processed} max={p.total} />
      </label>
    </p>
  );
}

function Thoughts({ text, thinking }: { text: string; thinking: boolean }) {
  return (
    <details class="thoughts">
      <summary>
        <Icon name="right" />
        {thinking ? "Thinking…" : "Thoughts"}
      </summary>
      <div>
        <Markdown text={text} live={thinking} />
      </div>
    </details>
  );
}

function CallView({ call }: { call: Call }) {
  return (
    <figure class="call">
      <figcaption>
        <Icon name="tool" />
        <span>
          calls <b>{call.name}</b>
        </span>
      </figcaption>
      <pre tabIndex={0}>{indented(call.arguments)}</pre>
    </figure>
  );
}

function indented(json: string): string {
  try {
    return JSON.stringify(JSON.parse(json), null, 2);
  } catch {
    return json;
  }
}

/** Lets the user answer calls, as the program would that has the tools. */
function Results({ message: m, calls }: { message: Message; calls: Call[] }) {
  const results = useSignal(calls.map(() => ""));
  if (!isLast(m)) return null;
  return (
    <form
      class="results"
      onSubmit={(e) => {
        e.preventDefault();
        giveResult(
          m,
          calls.map((c, i) => ({ id: c.id, result: results.value[i]! })),
        );
      }}
    >
      {calls.map((c, i) => (
        <label key={c.id}>
          Result of {c.name}
          <textarea
            rows={2}
            value={results.value[i]}
            onInput={(e) => (results.value = results.value.map((r, j) => (j === i ? e.currentTarget.value : r)))}
          />
        </label>
      ))}
      <button type="submit" class="quiet" disabled={!!running.value}>
        Give to the model
      </button>
    </form>
  );
}

function Branches({ message: m }: { message: Message }) {
  const all = siblings(current.value, m);
  if (all.length < 2) return null;
  const at = all.findIndex((o) => o.id === m.id);
  const go = (by: number) => showBranch(all[at + by]!);
  return (
    <span class="branches" role="group" aria-label="Branches">
      <Action icon="left" label="Previous branch" act={() => go(-1)} off={at === 0 || !!running.value} />
      <span>
        {at + 1}/{all.length}
      </span>
      <Action icon="right" label="Next branch" act={() => go(1)} off={at === all.length - 1 || !!running.value} />
    </span>
  );
}

function Took({ message: m }: { message: Message }) {
  const t = m.timings;
  const parts = [];
  if (t?.predicted_n !== undefined) parts.push(`${t.predicted_n.toLocaleString("en")} tokens`);
  if (t?.predicted_per_second) parts.push(`${t.predicted_per_second.toFixed(t.predicted_per_second < 10 ? 1 : 0)} tokens/s`);
  if (t?.prompt_n !== undefined) {
    const cached = t.cache_n ? ` + ${t.cache_n.toLocaleString("en")} cached` : "";
    parts.push(`prompt ${t.prompt_n.toLocaleString("en")}${cached}${t.prompt_ms === undefined ? "" : ` in ${seconds(t.prompt_ms)}`}`);
  }
  if (m.finish === "stopped") parts.push("stopped");
  if (m.role === "assistant" && !m.finish) parts.push("cut off: its tab was closed");
  if (parts.length === 0) return null;
  return <span class="took">{parts.join(" · ")}</span>;
}

function seconds(ms: number): string {
  return ms < 1000 ? `${ms.toFixed(0)} ms` : `${(ms / 1000).toFixed(1)} s`;
}

function Editor({ message: m, done }: { message: Message; done: () => void }) {
  const text = useSignal(m.content);
  const field = useRef<HTMLTextAreaElement>(null);
  useEffect(() => field.current!.focus(), []);
  const save = () => {
    done();
    if (text.value !== m.content) edit(m, text.value);
  };
  return (
    <li class={`message ${m.role} editing`}>
      {m.pictures && <Pictures all={m.pictures} />}
      <form
        onSubmit={(e) => {
          e.preventDefault();
          save();
        }}
      >
        <div class="grow" data-text={`${text.value}\n`}>
          <textarea
            aria-label="Message"
            ref={field}
            value={text.value}
            onInput={(e) => (text.value = e.currentTarget.value)}
            onKeyDown={(e) => {
              if (e.key === "Escape") done();
              if (e.key === "Enter" && (e.ctrlKey || e.metaKey)) save();
            }}
          />
        </div>
        <div class="buttons">
          <button type="button" class="quiet" onClick={done}>
            Cancel
          </button>
          <button type="submit" class="primary">
            {m.role === "user" ? "Send" : "Keep"}
          </button>
        </div>
      </form>
    </li>
  );
}
