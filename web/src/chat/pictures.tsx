import { signal } from "@preact/signals";
import { Icon } from "../shell/icon";
import { Sheet } from "../shell/sheet";
import type { Picture } from "./conversation";

/** The picture that is shown large, or was. */
const large = signal<Picture | null>(null);
const largeOpen = signal(false);

/** Pictures in small, which a click enlarges; with remove they can be taken away. */
export function Pictures({ all, remove }: { all: Picture[]; remove?: (p: Picture) => void }) {
  return (
    <ul class="pictures" aria-label="Pictures">
      {all.map((p, i) => (
        <li key={i}>
          <button
            type="button"
            class="thumbnail"
            aria-label={`Enlarge ${p.name}`}
            title={p.name}
            onClick={() => {
              large.value = p;
              largeOpen.value = true;
            }}
          >
            <img src={p.url} alt={p.name} decoding="async" />
          </button>
          {remove && (
            <button type="button" class="icon small" aria-label={`Remove ${p.name}`} title="Remove" onClick={() => remove(p)}>
              <Icon name="close" />
            </button>
          )}
        </li>
      ))}
    </ul>
  );
}

export function PictureSheet() {
  const p = large.value;
  return (
    <Sheet open={largeOpen} title={p?.name ?? "Picture"} kind="picture">
      {p && <img src={p.url} alt={p.name} />}
    </Sheet>
  );
}
