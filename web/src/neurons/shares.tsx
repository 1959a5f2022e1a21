export interface Share {
  name: string;
  kind: string; // its class
  share: number;
  text: string;
}

/** Parts of a whole, side by side, and what each is. */
export function Shares({ parts }: { parts: Share[] }) {
  const all = parts.reduce((sum, p) => sum + p.share, 0) || 1;
  return (
    <>
      <div class="times" aria-hidden="true">
        {parts.map((p) => (
          <span key={p.name} class={p.kind} style={{ flexGrow: (100 * p.share) / all }} />
        ))}
      </div>
      <ul class="parts">
        {parts.map((p) => (
          <li key={p.name}>
            <span class={`swatch ${p.kind}`} />
            {p.name} <b>{p.text}</b>
          </li>
        ))}
      </ul>
    </>
  );
}
