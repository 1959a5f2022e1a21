import DOMPurify from "dompurify";
import hljs from "highlight.js/lib/core";
import bash from "highlight.js/lib/languages/bash";
import c from "highlight.js/lib/languages/c";
import cpp from "highlight.js/lib/languages/cpp";
import css from "highlight.js/lib/languages/css";
import diff from "highlight.js/lib/languages/diff";
import go from "highlight.js/lib/languages/go";
import java from "highlight.js/lib/languages/java";
import javascript from "highlight.js/lib/languages/javascript";
import json from "highlight.js/lib/languages/json";
import python from "highlight.js/lib/languages/python";
import rust from "highlight.js/lib/languages/rust";
import sql from "highlight.js/lib/languages/sql";
import typescript from "highlight.js/lib/languages/typescript";
import xml from "highlight.js/lib/languages/xml";
import yaml from "highlight.js/lib/languages/yaml";
import { Marked, type Token, type Tokens } from "marked";
import { memo } from "../shell/memo";
import { useLayoutEffect, useRef } from "preact/hooks";
import { CopyButton } from "../shell/copy";
import { draw, escape, formulas, reading } from "./formulas";

for (const [name, language] of Object.entries({ bash, c, cpp, css, diff, go, java, javascript, json, python, rust, sql, typescript, xml, yaml })) {
  hljs.registerLanguage(name, language);
}

/** Code longer than this is not coloured: it would take longer than a frame. In UTF-16 units. */
const mostColoured = 20_000;

// Models and files are not trusted: whatever this makes goes through DOMPurify. Pictures become links, since loading one tells its server
// that, and what, was read.
const marked = new Marked(formulas, {
  gfm: true,
  breaks: true,
  renderer: {
    html: ({ text }) => (/^<br *\/?>$/i.test(text) ? "<br>" : escape(text)), // tables have no other way to say it
    def: ({ raw }) => `<p>${escape(raw.trim())}</p>`,
    image: ({ href, text }) => `<a href="${escape(href)}">${escape(text || href)}</a>`,
    code: ({ text, lang }) => `<pre tabindex="0"><code>${coloured(text, lang)}</code></pre>`,
    checkbox: ({ checked }) => (checked ? "☑ " : "☐ "),
  },
});

function coloured(text: string, lang = ""): string {
  const language = lang.trim().split(/\s/, 1)[0]!.toLowerCase();
  if (text.length > mostColoured || !hljs.getLanguage(language)) return escape(text);
  return hljs.highlight(text, { language, ignoreIllegals: true }).value;
}

const sanitizer = DOMPurify(window);
sanitizer.addHook("afterSanitizeAttributes", (node) => {
  if (node.tagName === "A") {
    node.setAttribute("target", "_blank");
    node.setAttribute("rel", "noopener noreferrer nofollow");
  }
  if (node.tagName === "TABLE") node.setAttribute("tabindex", "0"); // it may scroll
});

const allowedTags = "a b blockquote br code del div em h1 h2 h3 h4 h5 h6 hr i li ol p pre s span strong sub sup table tbody td th thead tr ul".split(
  " ",
);

function sanitize(html: string): DocumentFragment {
  const clean = sanitizer.sanitize(html, {
    RETURN_DOM_FRAGMENT: true,
    ALLOWED_TAGS: allowedTags,
    ALLOWED_ATTR: ["align", "class", "href", "start", "tabindex", "title"],
    ALLOWED_URI_REGEXP: /^(?:https?|mailto):/i,
  });
  for (const heading of clean.querySelectorAll("th:empty")) heading.replaceWith(document.createElement("td")); // it heads nothing
  draw(clean);
  return clean;
}

/**
 * A text in Markdown, which may still be written. Only blocks that changed are drawn again, so that the end of a long answer may grow quickly.
 */
export function Markdown({ text, live = false }: { text: string; live?: boolean }) {
  const tokens = blocks(text, live);
  return (
    <div class="markdown">
      {tokens.map((t, i) =>
        t.type === "code" ? <Code key={i} text={(t as Tokens.Code).text} lang={(t as Tokens.Code).lang} /> : <Block key={i} token={t} live={live} />,
      )}
    </div>
  );
}

function blocks(text: string, live: boolean): Token[] {
  return reading(live, () => marked.lexer(text)).filter((t) => t.type !== "space");
}

const Block = memo(
  ({ token }: { token: Token; live: boolean }) => <Markup html={marked.parser([token])} />,
  (a, b) => a.token.raw === b.token.raw && a.token.type === b.token.type && a.live === b.live,
);

const Code = memo(
  ({ text, lang }: { text: string; lang?: string }) => (
    <figure class="code">
      <figcaption>
        <span>{lang?.trim().split(/\s/, 1)[0] || "text"}</span>
        <CopyButton text={() => text} label="Copy code" />
      </figcaption>
      <Markup html={`<pre tabindex="0"><code>${coloured(text, lang)}</code></pre>`} />
    </figure>
  ),
  (a, b) => a.text === b.text && a.lang === b.lang,
);

function Markup({ html }: { html: string }) {
  const element = useRef<HTMLDivElement>(null);
  useLayoutEffect(() => element.current!.replaceChildren(sanitize(html)), [html]);
  return <div ref={element} />;
}

/** The text of an answer's complete blocks as it is read aloud, one for each. */
export function spokenBlocks(text: string): string[] {
  return blocks(text, false).map((t) => {
    if (t.type === "code") return "Code.";
    const clean = sanitize(marked.parser([t]));
    for (const formula of clean.querySelectorAll<HTMLElement>("[data-tex]")) formula.textContent = formula.dataset.tex!;
    return (clean.textContent ?? "").trim();
  });
}
