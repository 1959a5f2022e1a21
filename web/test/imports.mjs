import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { accessible, open, profile, rich, tab } from "./browser.mjs";

const file = (name, content) => ({ name, mimeType: "application/json", buffer: Buffer.from(content) });
const give = (page, what) => page.getByLabel("Exported conversations", { exact: true }).setInputFiles(what);
const said = (page, text) => page.locator("nav").getByRole("status").getByText(text).waitFor();
const titles = (page) => page.locator("nav li a").allInnerTexts();

/** Older, damaged and foreign exports. */
export async function imports() {
  const page = await open({});
  await give(page, rich); // as an older version of the page wrote it
  await said(page, "3 conversations imported.");
  await accessible(page, "what came of an import");
  await give(page, rich);
  await said(page, "3 conversations were already here.");

  const original = JSON.parse(readFileSync(rich, "utf8"));
  await page.getByRole("link", { name: "Sorting in Go" }).click();
  await page.getByText("Use the slices package:").waitFor();
  const changed = structuredClone(original);
  const [sorting, weather] = changed.conversations;
  sorting.messages.f = { id: "f", parent: "e", role: "tool", callID: "call_1", content: "4 °C, and rain", created: 6 };
  sorting.messages.b.content = "Use the"; // as it was while it was written
  weather.id = "other";
  weather.messages.d.content = "And in Rome?";
  await give(page, file("changed.json", JSON.stringify(changed)));
  await said(page, "1 conversation imported, 1 merged, 1 was already here.");
  await page.getByText("4 °C, and rain").waitFor(); // it is shown at once
  await page.getByText("Use the slices package:").waitFor();

  // A fault in the last conversation, and nothing of the file is there.
  const before = await titles(page);
  const bad = structuredClone(original);
  for (const c of bad.conversations) c.id = `${c.id}-new`;
  bad.conversations[2].messages.b.role = "admin";
  for (const [name, content, says] of [
    [
      "bad.json",
      JSON.stringify(bad),
      'Conversation 3 (“Formulas”), message 2: its role is "admin", not user, assistant or tool. Nothing was imported.',
    ],
    ["cut.json", readFileSync(rich, "utf8").slice(0, 4000), "The file is damaged or breaks off"],
    ["gpt.json", '[{"title":"x","mapping":{}}]', "The file is an export of ChatGPT"],
    ["model.gguf", "GGUF\u0003\u0000", "The file is a model (GGUF)"],
    ["notes.json", '{"a":[1,2,3]}', "The file is JSON, but holds no conversations"],
  ]) {
    await give(page, file(name, content));
    await said(page, says);
    assert.deepEqual(await titles(page), before, name);
  }
  await accessible(page, "a file that was refused");

  const lines = [
    { harness: "llama.app", type: "session", id: "6b86b273", name: "Llamas", lastModified: 1800000000000, currNode: "2" },
    { type: "message", message: { id: "0", type: "root", role: "system", content: "", timestamp: 1, parent: null, children: ["1"] } },
    { type: "message", message: { id: "1", type: "text", role: "user", content: "Do they spit?", timestamp: 2, parent: "0", children: ["2"] } },
    { type: "message", message: { id: "2", type: "text", role: "assistant", content: "They **do**.", timestamp: 3, parent: "1", children: [] } },
  ];
  await give(page, file("llama.jsonl", lines.map((l) => JSON.stringify(l)).join("\n")));
  await said(page, "1 conversation imported.");
  await page.getByRole("link", { name: "Llamas" }).click();
  await page.locator(".markdown strong", { hasText: "do" }).waitFor();

  // Out and in again, in another browser.
  const download = page.waitForEvent("download");
  await page.getByRole("button", { name: "Export all conversations" }).click();
  const all = readFileSync(await (await download).path(), "utf8");
  const other = await open({});
  await give(other, file("all.json", all));
  await said(other, "5 conversations imported.");
  const again = other.waitForEvent("download");
  await other.getByRole("button", { name: "Export all conversations" }).click();
  assert.deepEqual(JSON.parse(readFileSync(await (await again).path(), "utf8")), JSON.parse(all), "what went out and in");
  await other.context().close();
  await page.context().close();
}

/** What is stored or imported can do nothing but be shown. */
export async function untrusted() {
  const context = await profile({});
  const evil = [
    "<img src=x onerror=\"document.title='broken into'\"> <svg onload=\"document.title='broken into'\">",
    "[a](javascript:document.title='broken_into') [b](data:text/html,<script>1</script>) [c](/models/unload) [d](vbscript:x) [e](https://example.com)",
    "![p](https://example.com/p.png) ![q](data:image/svg+xml,<svg/>)",
    "$\\href{javascript:document.title='x'}{y^2}$ $\\color{red;background:url(https://example.com)}{y^2}$",
    "<a href='https://example.com' target=_top>f</a> <form action=/><input></form> <style>body{display:none}</style>",
  ].join("\n\n");
  const c = {
    id: "evil",
    title: "<img src=x onerror=\"document.title='broken into'\">",
    created: 1,
    updated: 1,
    messages: {
      a: { id: "a", parent: null, role: "user", content: evil, attachments: [{ name: "<b>x</b>", text: "<script>1</script>" }], created: 1 },
      b: { id: "b", parent: "a", role: "assistant", content: evil, reasoning: evil, calls: [{ id: "1", name: "<i>", arguments: evil }], created: 2 },
    },
    chosen: {},
  };
  // What other programs, or faults of earlier versions, may have left in the browser.
  await context.addInitScript(() => {
    if (localStorage.length > 0) return;
    const left = { sampling: "null", instructions: "5", theme: '{"a":1}', model: "[]", neurons: '"x"', apiKey: "{}", probabilities: "" };
    for (const [name, text] of Object.entries(left)) localStorage.setItem(`powerinfer.${name}`, text);
  });
  const page = await tab(context);
  await give(page, file("evil.json", JSON.stringify({ format: "powerinfer-conversations-1", conversations: [c] })));
  await said(page, "1 conversation imported.");
  await page.locator("nav li a").click();
  await page.getByText("vbscript").first().waitFor();
  assert.deepEqual(await page.locator(".messages a").evaluateAll((all) => [...new Set(all.map((a) => a.getAttribute("href")))].sort()), [
    "https://example.com",
    "https://example.com/p.png",
    null,
  ]);
  assert.equal(await page.locator(".messages :is(img, script, svg:not(.glyph), form, input, style, iframe, [onerror], [onload])").count(), 0);
  assert.equal(await page.title(), "PowerInfer");

  // A stored conversation with fields that are none is shown as far as it goes.
  await page.evaluate(
    () =>
      new Promise((resolve) => {
        const open = indexedDB.open("powerinfer");
        open.onsuccess = () => {
          const tx = open.result.transaction("conversations", "readwrite");
          const m = (id, more) => ({ id, parent: null, role: "user", content: `I am ${id}.`, created: 1, ...more });
          const messages = {
            a: m("a"),
            b: m("b", { parent: "a", role: "assistant", timings: { predicted_n: "x" }, calls: 5, tokens: [null] }),
            c: 5,
            d: m("d", { role: 7 }),
          };
          tx.objectStore("conversations").put({ id: "odd", title: "Odd", created: 1, updated: 2, messages, chosen: 5 });
          tx.oncomplete = () => (open.result.close(), resolve());
        };
      }),
  );
  await page.reload();
  await page.getByRole("link", { name: "Odd" }).click();
  await page.getByText("I am b.").waitFor();
  await page.evaluate(() => (location.hash = "#/constructor"));
  await page.getByText("I am b.").waitFor({ state: "detached" });
  await context.close();
}
