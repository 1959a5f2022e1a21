import { useSignal } from "@preact/signals";
import { useId } from "preact/hooks";
import type { Likely, Token } from "../api/chat";

/** An answer token by token: the fainter the mark, the likelier it was. What else could have been said shows on hover and with the arrow keys. */
export function Tokens({ tokens }: { tokens: Token[] }) {
  const at = useSignal<{ index: number; left: number; top: number } | null>(null);
  const id = useId();
  const show = (element: HTMLElement) => {
    const box = element.getBoundingClientRect();
    const width = Math.min(260, innerWidth - 16);
    const top = box.bottom + 230 > innerHeight ? Math.max(8, box.top - 8 - 200) : box.bottom + 6;
    at.value = { index: Number(element.dataset.index), left: Math.max(8, Math.min(box.left, innerWidth - width - 8)), top };
  };
  const over = (e: Event) => {
    const element = (e.target as HTMLElement).closest<HTMLElement>("[data-index]");
    if (element) show(element);
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === "Escape") at.value = null;
    const by = { ArrowRight: 1, ArrowLeft: -1 }[e.key];
    if (!by) return;
    e.preventDefault();
    const index = Math.min(tokens.length - 1, Math.max(0, (at.value?.index ?? -1) + by));
    const element = (e.currentTarget as HTMLElement).querySelector<HTMLElement>(`[data-index="${index}"]`);
    if (element) {
      element.scrollIntoView({ block: "nearest" });
      show(element);
    }
  };
  const token = at.value && tokens[at.value.index];
  return (
    <>
      <div
        class="tokens"
        tabIndex={0}
        role="group"
        aria-label="Tokens; the arrow keys go through them"
        aria-describedby={token ? id : undefined}
        onPointerOver={over}
        onPointerLeave={() => (at.value = null)}
        onBlur={() => (at.value = null)}
        onKeyDown={key}
      >
        {tokens.map((t, i) => (
          <span key={i} data-index={i} class={`p${level(t.logprob)}${at.value?.index === i ? " at" : ""}`}>
            {t.token}
          </span>
        ))}
      </div>
      {token && (
        <div class="likely" id={id} role="status" style={{ left: `${at.value!.left}px`, top: `${at.value!.top}px` }}>
          <Likelihoods token={token} />
        </div>
      )}
    </>
  );
}

function Likelihoods({ token }: { token: Token }) {
  const inTop = token.top.some((t) => t.token === token.token && t.logprob === token.logprob);
  const all = inTop ? token.top : [...token.top, token];
  return (
    <table>
      <thead class="hidden">
        <tr>
          <th>Token</th>
          <th>Probability</th>
        </tr>
      </thead>
      <tbody>
        {all.map((t, i) => (
          <tr key={i} class={t.token === token.token && t.logprob === token.logprob ? "chosen" : ""}>
            <td>
              <code>{visible(t)}</code>
            </td>
            <td>
              <meter min={0} max={1} value={Math.exp(t.logprob)} aria-hidden="true" />
              {percent(t.logprob)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  );
}

/** The token with its spaces and line ends visible. */
function visible(t: Likely): string {
  return t.token.replaceAll(" ", "␣").replaceAll("\n", "⏎").replaceAll("\t", "⇥") || "∅";
}

function percent(logprob: number): string {
  const p = 100 * Math.exp(logprob);
  return p >= 10 ? `${p.toFixed(0)} %` : p >= 0.1 ? `${p.toFixed(1)} %` : "< 0.1 %";
}

/** From which probabilities on a token has a fainter mark. */
const levels = [0.9, 0.6, 0.3, 0.1];

function level(logprob: number): number {
  const p = Math.exp(logprob);
  const i = levels.findIndex((l) => p >= l);
  return i < 0 ? levels.length : i;
}
