import { signal } from "@preact/signals";

const said = signal("");

/** Has a screen reader say text when it has said what it is saying. */
export function announce(text: string): void {
  said.value = said.value === text ? `${text}\u00a0` : text;
}

export function Announcer() {
  return (
    <div class="hidden" role="status" aria-live="polite" aria-atomic="true">
      {said}
    </div>
  );
}
