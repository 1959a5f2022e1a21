import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../shell/icon";
import type { Attachment } from "./conversation";
import { model } from "./models";
import { current, notice, running, say, stop } from "./state";

/** The largest file that is read, in bytes: more is hardly ever within a context. */
const largestFile = 2 << 20;

export function Composer() {
  const text = useSignal("");
  const files = useSignal<Attachment[]>([]);
  const over = useSignal(false); // something is held over the field
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);

  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current!.focus();
  }, [current.value.id]);

  const attach = async (list: Iterable<File>) => {
    for (const file of list) {
      try {
        files.value = [...files.value, { name: file.name, text: await readText(file) }];
      } catch (failure) {
        notice.value = (failure as Error).message;
      }
    }
  };
  const send = () => {
    if (running.value || !model.value || (text.value.trim() === "" && files.value.length === 0)) return;
    say(text.value, files.value);
    text.value = "";
    files.value = [];
  };
  const key = (e: KeyboardEvent) => {
    if (e.key === "Enter" && !e.shiftKey && !e.isComposing) {
      e.preventDefault();
      send();
    } else if (e.key === "Escape" && running.value) {
      stop();
    }
  };
  const paste = (e: ClipboardEvent) => {
    const list = e.clipboardData?.files;
    if (list?.length) {
      e.preventDefault();
      void attach(list);
    }
  };
  const drop = (e: DragEvent) => {
    e.preventDefault();
    over.value = false;
    void attach(e.dataTransfer?.files ?? []);
  };
  return (
    <form
      class={over.value ? "composer over" : "composer"}
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
      onDragOver={(e) => {
        e.preventDefault();
        over.value = true;
      }}
      onDragLeave={() => (over.value = false)}
      onDrop={drop}
    >
      {files.value.length > 0 && (
        <ul class="files" aria-label="Files">
          {files.value.map((f, i) => (
            <li key={i}>
              <Icon name="file" />
              <span>{f.name}</span>
              <button
                type="button"
                class="icon small"
                aria-label={`Remove ${f.name}`}
                onClick={() => (files.value = files.value.filter((o) => o !== f))}
              >
                <Icon name="close" />
              </button>
            </li>
          ))}
        </ul>
      )}
      <div class="grow" data-text={`${text.value}\n`}>
        <textarea
          ref={field}
          rows={1}
          aria-label="Message"
          placeholder="Message"
          value={text.value}
          onInput={(e) => (text.value = e.currentTarget.value)}
          onKeyDown={key}
          onPaste={paste}
        />
      </div>
      <div class="tools">
        <button type="button" class="icon" aria-label="Attach text files" title="Attach text files" onClick={() => picker.current!.click()}>
          <Icon name="clip" />
        </button>
        <input
          ref={picker}
          type="file"
          multiple
          hidden
          aria-label="Text files"
          onChange={(e) => {
            void attach([...(e.currentTarget.files ?? [])]);
            e.currentTarget.value = "";
          }}
        />
        <span class="space" />
        {running.value ? (
          <button type="button" class="icon primary" aria-label="Stop" title="Stop (Esc)" onClick={stop}>
            <Icon name="stop" />
          </button>
        ) : (
          <button
            type="submit"
            class="icon primary"
            aria-label="Send"
            title="Send (Enter)"
            disabled={!model.value || (text.value.trim() === "" && files.value.length === 0)}
          >
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  );
}

async function readText(file: File): Promise<string> {
  if (file.size > largestFile) throw new Error(`${file.name} is larger than 2 MiB. Attach a part of it.`);
  const bytes = await file.arrayBuffer();
  try {
    const text = new TextDecoder("utf-8", { fatal: true }).decode(bytes);
    if (!text.includes("\0")) return text;
  } catch {
    // not UTF-8
  }
  throw new Error(`${file.name} is not a text file in UTF-8. Save it as one, or attach another.`);
}
