import { useSignal } from "@preact/signals";
import { useEffect, useRef } from "preact/hooks";
import { Icon } from "../shell/icon";
import type { Attachment, Picture } from "./conversation";
import { model } from "./models";
import { isPicture, readPicture } from "./picture";
import { Pictures } from "./pictures";
import { sees } from "./settings";
import { current, notice, running, say, stop } from "./state";

/** The largest file that is read, in bytes: more is hardly ever within a context. */
const largestFile = 2 << 20;

export function Composer() {
  const text = useSignal("");
  const files = useSignal<Attachment[]>([]);
  const pictures = useSignal<Picture[]>([]);
  const reading = useSignal(0); // files are being read
  const over = useSignal(false); // files are held over the page
  const field = useRef<HTMLTextAreaElement>(null);
  const picker = useRef<HTMLInputElement>(null);
  const picturePicker = useRef<HTMLInputElement>(null);
  const blind = sees.value === false;
  const empty = text.value.trim() === "" && files.value.length + pictures.value.length === 0;
  const unready = !model.value || empty || reading.value > 0 || (blind && pictures.value.length > 0);

  useEffect(() => {
    if (matchMedia("(hover: hover)").matches) field.current!.focus();
  }, [current.value.id]);

  const attachOne = async (file: File) => {
    try {
      if (!isPicture(file)) {
        const text = await readText(file);
        files.value = [...files.value, { name: file.name, text }];
        return;
      }
      if (sees.value === false) throw new Error(whyBlind());
      const picture = await readPicture(file);
      pictures.value = [...pictures.value, picture];
    } catch (failure) {
      notice.value = (failure as Error).message;
    } finally {
      reading.value--;
    }
  };
  const attached = useRef(Promise.resolve()); // when all files are read, in their order
  const attach = (list: File[]) => {
    reading.value += list.length;
    for (const file of list) attached.current = attached.current.then(() => attachOne(file));
  };
  const send = () => {
    if (running.value || unready) return;
    say(text.value, files.value, pictures.value);
    text.value = "";
    files.value = [];
    pictures.value = [];
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
    const data = e.clipboardData;
    const isText = ["text/plain", "text/html"].every((type) => data?.types.includes(type)); // some programs add a picture of it
    if (!data?.files.length || isText) return;
    e.preventDefault();
    attach([...data.files]);
  };
  useEffect(() => {
    const holds = (e: DragEvent) => e.dataTransfer?.types.includes("Files");
    const take = (e: DragEvent) => {
      if (!holds(e)) return;
      e.preventDefault();
      over.value = e.type === "dragover";
      if (e.type === "drop") attach([...e.dataTransfer!.files]);
    };
    const leave = (e: DragEvent) => !e.relatedTarget && (over.value = false);
    addEventListener("dragover", take);
    addEventListener("drop", take);
    addEventListener("dragleave", leave);
    return () => {
      removeEventListener("dragover", take);
      removeEventListener("drop", take);
      removeEventListener("dragleave", leave);
    };
  }, []);
  const picked = (e: { currentTarget: HTMLInputElement }) => {
    attach([...(e.currentTarget.files ?? [])]);
    e.currentTarget.value = "";
  };
  return (
    <form
      class={over.value ? "composer over" : "composer"}
      onSubmit={(e) => {
        e.preventDefault();
        send();
      }}
    >
      {blind && pictures.value.length > 0 && (
        <p class="lead" role="alert">
          {whyBlind()}
        </p>
      )}
      {pictures.value.length > 0 && (
        <Pictures
          all={pictures.value}
          remove={(p) => {
            pictures.value = pictures.value.filter((o) => o !== p);
            field.current!.focus();
          }}
        />
      )}
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
        <input ref={picker} type="file" multiple hidden aria-label="Text files" onChange={picked} />
        <button
          type="button"
          class="icon"
          aria-label="Attach pictures"
          aria-disabled={blind}
          title={blind ? whyBlind() : "Attach pictures"}
          onClick={() => (blind ? (notice.value = whyBlind()) : picturePicker.current!.click())}
        >
          <Icon name="picture" />
        </button>
        <input ref={picturePicker} type="file" accept="image/*" multiple hidden aria-label="Picture files" onChange={picked} />
        <span class="space" />
        {running.value ? (
          <button type="button" class="icon primary" aria-label="Stop" title="Stop (Esc)" onClick={stop}>
            <Icon name="stop" />
          </button>
        ) : (
          <button type="submit" class="icon primary" aria-label="Send" title="Send (Enter)" disabled={unready}>
            <Icon name="send" />
          </button>
        )}
      </div>
    </form>
  );
}

/** Says that the model cannot be shown pictures. */
function whyBlind(): string {
  return `${model.value?.id} reads text only: choose a model that sees, or start the server with the model's --mmproj file.`;
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
