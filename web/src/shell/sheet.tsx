import type { Signal } from "@preact/signals";
import type { ComponentChildren } from "preact";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "./icon";

/** A dialog over the page, which the browser keeps the focus in and Escape closes. */
export function Sheet({ open, title, kind, children }: { open: Signal<boolean>; title: string; kind: string; children: ComponentChildren }) {
  const dialog = useRef<HTMLDialogElement>(null);
  useEffect(() => {
    if (open.value && !dialog.current!.open) dialog.current!.showModal();
    if (!open.value && dialog.current!.open) dialog.current!.close();
  }, [open.value]);
  return (
    <dialog
      ref={dialog}
      class={`sheet ${kind}`}
      aria-label={title}
      onClose={() => (open.value = false)}
      onClick={(e) => e.target === dialog.current && dialog.current!.close()}
    >
      {open.value && (
        <div class="sheet-body">
          <header>
            <h2>{title}</h2>
            <button type="button" class="icon" aria-label="Close" onClick={() => (open.value = false)}>
              <Icon name="close" />
            </button>
          </header>
          {children}
        </div>
      )}
    </dialog>
  );
}
