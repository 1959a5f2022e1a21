import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

/** Addresses of a server of one model and of one of several, and a folder for pictures, which may be missing. */
export const [url, library, pictures] = process.argv.slice(3);
export const rich = new URL("conversation.json", import.meta.url).pathname;

const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");

/** Longer than any step takes on a busy machine, in milliseconds. */
const patience = 300_000;

export const browser = await chromium.launch({
  executablePath: process.argv[2],
  args: [
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-smooth-scrolling",
    "--no-first-run",
  ],
});

/** Messages on the console, errors, and requests to elsewhere. */
export const said = [];

/** A page of its own browser profile, whose messages and requests are watched. */
export async function open(options, at = url) {
  return tab(await profile(options), at);
}

/** A browser profile without animations: a step could look at one halfway. */
export async function profile(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, reducedMotion: "reduce", ...options });
  context.setDefaultTimeout(patience);
  return context;
}

/** A further tab of a profile. */
export async function tab(context, at = url) {
  const page = await context.newPage();
  page.on("console", (m) => said.push(`console: ${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => said.push(`error: ${e.stack}`));
  page.on("dialog", (d) => d.accept());
  page.on("request", (r) => r.url().startsWith(new URL(at).origin) || /^(data|blob):/.test(r.url()) || said.push(`request to ${r.url()}`));
  await page.goto(at);
  await page.getByRole("button", { name: "Model:" }).filter({ hasNotText: "No model" }).waitFor();
  return page;
}

/** Fails where the page as it stands is hard to use for some. */
export async function accessible(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  const told = violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => `${n.target} ${n.any.map((c) => c.message).join("; ")}`).join(", ")}`);
  assert.deepEqual(told, [], `${what} is not accessible`);
}

export async function say(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
}

export const answered = (page) => page.getByRole("button", { name: "Send" }).waitFor();
export const lastAnswer = (page) => page.locator(".message.assistant").last();

/** Has the page's answers come from push, piece by piece, in place of the server; finish ends one. window.asked is the request. */
export async function scripted(page) {
  await page.evaluate(() => {
    const real = window.fetch;
    window.fetch = (address, init) => {
      if (!String(address).endsWith("/v1/chat/completions")) return real(address, init);
      window.asked = JSON.parse(init.body);
      const body = new ReadableStream({
        start: (c) => {
          window.push = (data) => (data ? c.enqueue(new TextEncoder().encode(`data: ${data}\n\n`)) : c.close());
          init.signal.addEventListener("abort", () => c.error(new DOMException("aborted", "AbortError")));
        },
      });
      return Promise.resolve(new Response(body));
    };
  });
}

export const push = (page, content) => page.evaluate((data) => window.push(data), JSON.stringify({ choices: [{ delta: { content } }] }));

export async function finish(page) {
  await page.evaluate(() => window.push(`{"choices":[{"delta":{},"finish_reason":"stop"}]}`));
  await page.evaluate(() => window.push("[DONE]"));
}

/** Waits until is gives true. */
export async function until(what, is) {
  for (const end = performance.now() + patience; !(await is()); await new Promise((resolve) => setTimeout(resolve, 20)))
    assert.ok(performance.now() < end, `${what}: not within ${patience} ms`);
}

/** Waits until the page has been laid out and drawn as it is now. */
export const laidOut = (page) => page.evaluate(() => new Promise((done) => requestAnimationFrame(() => requestAnimationFrame(done))));

export async function limitTokens(page, n) {
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Longest answer").fill(String(n));
  await page.getByLabel("Longest answer").blur();
  await page.keyboard.press("Escape");
}

/** Makes the next answer go on until it is stopped or as long as it may be: the model could end it early, by chance. */
export async function endless(page) {
  const forever = (route) => route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) });
  await page.route("**/v1/chat/completions", forever, { times: 1 });
}
