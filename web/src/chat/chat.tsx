import { useSignal } from "@preact/signals";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { announce } from "../shell/announce";
import { Icon } from "../shell/icon";
import { Composer } from "./composer";
import { spokenBlocks } from "./markdown";
import { MessageView } from "./message";
import { model, models, modelsError } from "./models";
import { contextSize } from "./settings";
import { current, notice, running, shown } from "./state";

export function Chat() {
  const messages = shown.value;
  return (
    <section class="chat" aria-label="Conversation">
      {messages.length > 0 && <h1 class="hidden">{current.value.title || "Conversation"}</h1>}
      {messages.length === 0 ? <Welcome /> : <Messages />}
      <div class="foot">
        {notice.value && (
          <p class="notice" role="alert">
            <span>{notice}</span>
            <button type="button" class="icon small" aria-label="Dismiss" onClick={() => (notice.value = "")}>
              <Icon name="close" />
            </button>
          </p>
        )}
        <Composer />
      </div>
    </section>
  );
}

function Welcome() {
  const m = model.value;
  return (
    <div class="welcome">
      <h1>What shall we talk about?</h1>
      {m && (
        <p>
          {m.id}
          {contextSize.value > 0 && ` · ${contextSize.value.toLocaleString("en")} tokens of context`}
        </p>
      )}
      {!m && <p>{modelsError.value || (models.value.length === 0 ? "The server has no model yet." : "")}</p>}
    </div>
  );
}

/** Within so many pixels of the end the view follows what is written. */
const nearEnd = 80;

function Messages() {
  const view = useRef<HTMLDivElement>(null);
  const away = useSignal(false); // the user reads further up
  const messages = shown.value;
  const follow = () => {
    const v = view.current!;
    v.scrollTop = v.scrollHeight;
  };
  useLayoutEffect(() => {
    if (!away.value) follow();
  });
  const last = messages.at(-1)!.id;
  useEffect(() => {
    away.value = false;
    follow();
  }, [messages[0]!.id, running.value?.message.peek().id ?? last]);
  useSpoken();
  const top = useRef(0); // where the view was
  const scrolled = () => {
    const v = view.current!;
    const near = v.scrollHeight - v.scrollTop - v.clientHeight <= nearEnd;
    if (near) away.value = false;
    else if (v.scrollTop < top.current) away.value = true; // it is the user who goes up; what is written only moves the end
    top.current = v.scrollTop;
  };
  return (
    <div class="scroll-frame">
      <div class="messages" ref={view} onScroll={scrolled} tabIndex={0} role="group" aria-label="Messages">
        <ol class="column">
          {messages.map((m) => (
            <MessageView key={m.id} message={m} live={running.value?.message.value.id === m.id} />
          ))}
        </ol>
      </div>
      {away.value && (
        <button type="button" class="icon to-end" aria-label="To the end" onClick={() => (away.value = false)}>
          <Icon name="down" />
        </button>
      )}
    </div>
  );
}

/** Has a screen reader say each block of an answer when it is complete, and not every token. */
function useSpoken(): void {
  const said = useRef({ id: "", blocks: 0 });
  const live = running.value?.message.value;
  const messages = shown.value;
  useEffect(() => {
    const m = live ?? messages.at(-1)!;
    if (m.role !== "assistant") return;
    if (said.current.id !== m.id) {
      if (!live) return;
      said.current = { id: m.id, blocks: 0 };
    }
    const blocks = spokenBlocks(m.content);
    const complete = live ? blocks.length - 1 : blocks.length;
    if (complete > said.current.blocks) {
      announce(blocks.slice(said.current.blocks, complete).join(" "));
      said.current.blocks = complete;
    }
    if (!live) said.current.id = "";
  }, [live, messages]);
}
