import { signal, useSignal } from "@preact/signals";
import { useRef } from "preact/hooks";
import { begin, current, entries, exportFile, importFile, remove, rename } from "../chat/state";
import type { Entry } from "../chat/archive";
import { longestName } from "../chat/check";
import { runs } from "../chat/runs";
import { Icon } from "./icon";
import { ThemeButton } from "./theme";
import { settingsOpen } from "./settings";

/** Whether the list is shown over the page, where there is no room beside it. */
export const sidebarOpen = signal(false);

export function Sidebar() {
  const picker = useRef<HTMLInputElement>(null);
  const told = useSignal<{ text: string; bad: boolean } | null>(null); // what came of the last import
  const reading = useSignal(false);
  const read = async (file: File) => {
    reading.value = true;
    told.value = null;
    try {
      told.value = { text: await importFile(file), bad: false };
    } catch (failure) {
      told.value = { text: (failure as Error).message, bad: true };
    }
    reading.value = false;
  };
  return (
    <nav
      class={sidebarOpen.value ? "sidebar open" : "sidebar"}
      id="sidebar"
      aria-label="Conversations"
      onKeyDown={(e) => e.key === "Escape" && (sidebarOpen.value = false)}
    >
      <div class="brand">
        <span>PowerInfer</span>
        <button type="button" class="icon narrow-only" aria-label="Close the list" onClick={() => (sidebarOpen.value = false)}>
          <Icon name="close" />
        </button>
      </div>
      <button
        type="button"
        class="new"
        onClick={() => {
          begin();
          sidebarOpen.value = false;
        }}
      >
        <Icon name="plus" />
        New conversation
      </button>
      <div class="list" tabIndex={0} role="group" aria-label="Earlier conversations">
        {byAge(entries.value).map(([age, list]) => (
          <section key={age}>
            <h2>{age}</h2>
            <ul>
              {list.map((e) => (
                <Row key={e.id} entry={e} />
              ))}
            </ul>
          </section>
        ))}
      </div>
      <div class="told" role="status">
        {reading.value && <p class="lead">Reading the file…</p>}
        {told.value && (
          <p class={told.value.bad ? "notice" : "notice good"}>
            <span>{told.value.text}</span>
            <button type="button" class="icon small" aria-label="Dismiss" onClick={() => (told.value = null)}>
              <Icon name="close" />
            </button>
          </p>
        )}
      </div>
      <div class="sidebar-foot">
        <button type="button" class="icon" aria-label="Settings" title="Settings" onClick={() => (settingsOpen.value = true)}>
          <Icon name="sliders" />
        </button>
        <ThemeButton />
        <span class="space" />
        <button
          type="button"
          class="icon"
          aria-label="Import conversations"
          title="Import conversations"
          disabled={reading}
          onClick={() => picker.current!.click()}
        >
          <Icon name="upload" />
        </button>
        <button
          type="button"
          class="icon"
          aria-label="Export all conversations"
          title="Export all conversations"
          onClick={() => exportFile()}
          disabled={entries.value.length === 0}
        >
          <Icon name="download" />
        </button>
        <input
          ref={picker}
          type="file"
          hidden
          aria-label="Exported conversations"
          onChange={async (e) => {
            const input = e.currentTarget;
            if (input.files![0]) await read(input.files![0]);
            input.value = "";
          }}
        />
      </div>
    </nav>
  );
}

function Row({ entry }: { entry: Entry }) {
  const renaming = useSignal(false);
  const here = entry.id === current.value.id;
  if (renaming.value) {
    const finish = (title: string) => {
      renaming.value = false;
      void rename(entry.id, title);
    };
    return (
      <li>
        <input
          class="rename"
          aria-label="Title"
          defaultValue={entry.title}
          maxLength={longestName}
          ref={(e) => e?.focus()}
          onBlur={(e) => renaming.value && finish(e.currentTarget.value)}
          onKeyDown={(e) => {
            if (e.key === "Enter") finish(e.currentTarget.value);
            if (e.key === "Escape") {
              e.stopPropagation();
              renaming.value = false;
            }
          }}
        />
      </li>
    );
  }
  const title = entry.title || "Untitled";
  return (
    <li class={here ? "here" : ""}>
      <a href={`#/${entry.id}`} aria-current={here ? "page" : undefined} onClick={() => (sidebarOpen.value = false)}>
        {title}
        {runs.value.has(entry.id) && <span class="dot" title="The model answers" />}
      </a>
      <span class="row-actions">
        <button type="button" class="icon small" aria-label={`Rename ${title}`} title="Rename" onClick={() => (renaming.value = true)}>
          <Icon name="edit" />
        </button>
        <button type="button" class="icon small" aria-label={`Export ${title}`} title="Export" onClick={() => exportFile(entry.id)}>
          <Icon name="download" />
        </button>
        <button
          type="button"
          class="icon small"
          aria-label={`Delete ${title}`}
          title="Delete"
          onClick={() => confirm(`Delete “${title}”?`) && remove(entry.id)}
        >
          <Icon name="trash" />
        </button>
      </span>
    </li>
  );
}

const day = 24 * 60 * 60 * 1000;

function byAge(all: Entry[]): [string, Entry[]][] {
  const midnight = new Date().setHours(0, 0, 0, 0);
  const groups = new Map<string, Entry[]>();
  for (const e of all) {
    const age =
      e.updated >= midnight ? "Today" : e.updated >= midnight - day ? "Yesterday" : e.updated >= midnight - 7 * day ? "Last week" : "Earlier";
    groups.set(age, [...(groups.get(age) ?? []), e]);
  }
  return [...groups];
}
