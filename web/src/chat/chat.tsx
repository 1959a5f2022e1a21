import { useSignal } from "@preact/signals";
import { Fragment } from "preact";
import { useEffect, useLayoutEffect, useRef } from "preact/hooks";
import { announce } from "../shell/announce";
import { CopyButton } from "../shell/copy";
import { Icon } from "../shell/icon";
import { Composer } from "./composer";
import { spokenBlocks } from "./markdown";
import { MessageView } from "./message";
import { model, models, modelsError, modelsOpen, server } from "./models";
import { PictureSheet } from "./pictures";
import { contextSize, demo, sees } from "./settings";
import { current, notice, running, shown, trouble } from "./state";

export function Chat() {
  const messages = shown.value;
  return (
    <section class="chat" aria-label="Conversation">
      {messages.length > 0 && <h1 class="hidden">{current.value.title || "Conversation"}</h1>}
      {messages.length > 0 && demo.value && <Demo brief />}
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
        {trouble.value && (
          <p class="notice" role="alert">
            <span>{trouble}</span>
            <button type="button" class="icon small" aria-label="Dismiss" onClick={() => (trouble.value = "")}>
              <Icon name="close" />
            </button>
          </p>
        )}
        {running.value?.elsewhere && <p class="lead">Another tab receives this answer. Stop ends it there; then a message can follow.</p>}
        {sees.value === false && messages.some((m) => m.pictures) && (
          <p class="lead">{model.value?.id} reads text only: of the pictures in this conversation it is told the names.</p>
        )}
        <Composer />
      </div>
      <PictureSheet />
    </section>
  );
}

function Welcome() {
  const m = model.value;
  return (
    <div class="welcome">
      <h1>{demo.value ? "Begin a tale, and the model goes on" : "What shall we talk about?"}</h1>
      {m && (
        <p>
          {m.id}
          {contextSize.value > 0 && ` · ${contextSize.value.toLocaleString("en")} tokens of context`}
        </p>
      )}
      {demo.value && <Demo />}
      {!m && <p>{modelsError.value || (models.value.length === 0 ? "The server has no model yet." : "")}</p>}
      {!m && server.value?.pulls && (
        <button type="button" class="primary" onClick={() => (modelsOpen.value = true)}>
          Download a model
        </button>
      )}
    </div>
  );
}

/** What serves a model that one can talk with. */
const chatting = "powerinfer serve qwen3:0.6b";

/** Says that the model is a demo, in brief beside a conversation. */
function Demo({ brief = false }: { brief?: boolean }) {
  return (
    <p class="demo" role="note">
      <span>
        {brief ? "A demo that tells tales. To chat:" : "This is a demo: a tiny model that tells tales. To chat with a real model on this page:"}
      </span>
      <span class="command">
        <code>{chatting}</code>
        <CopyButton text={() => chatting} label="Copy the command" />
      </span>
      {!brief && (
        <span>
          or, in a terminal, <code>powerinfer chat qwen3:0.6b</code>
        </span>
      )}
    </p>
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
  const first = messages.findLast((m) => m.role === "assistant")?.first;
  useEffect(() => {
    away.value = false;
    follow();
  }, [messages[0]!.id, running.value?.message.peek().id ?? last]);
  useSpoken();
  const top = useRef(0); // where the view was
  const reads = useRef<{ element: Element; at: number } | null>(null); // what is at the top of the view, and how far down
  useEffect(() => {
    const v = view.current!;
    const resized = new ResizeObserver(() => {
      if (!v.isConnected) return;
      if (!away.peek()) follow();
      else if (reads.current?.element.isConnected) v.scrollTop += offset(v, reads.current.element) - reads.current.at;
    });
    resized.observe(v);
    return () => resized.disconnect();
  }, []);
  const scrolled = () => {
    const v = view.current!;
    reads.current = topmost(v);
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
            <Fragment key={m.id}>
              {m.id === first && <li class="lead unseen">The model no longer sees what is above: its context has no room for all.</li>}
              <MessageView message={m} live={running.value?.message.value.id === m.id} />
            </Fragment>
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

/** The part of a message that is at the top of the view. */
function topmost(view: Element): { element: Element; at: number } | null {
  for (const element of view.querySelectorAll(".markdown > *, .said, .thoughts, .tokens")) {
    const at = offset(view, element);
    if (at + element.clientHeight > 0) return { element, at };
  }
  return null;
}

function offset(view: Element, element: Element): number {
  return element.getBoundingClientRect().top - view.getBoundingClientRect().top;
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
