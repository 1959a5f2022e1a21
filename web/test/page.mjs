// Tries the page in a browser: node page.mjs URL PROGRAM [FOLDER], with the address of a server that has the embedded model, the browser's program
// and a folder for pictures. Every step fails by throwing; messages on the console and requests to elsewhere fail at the end.
import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { chromium } from "playwright-core";

const [url, program, pictures] = process.argv.slice(2);
const axe = readFileSync(createRequire(import.meta.url).resolve("axe-core/axe.min.js"), "utf8");
const rich = new URL("conversation.json", import.meta.url).pathname;

/** Longer than any step takes on a busy machine, in milliseconds. */
const patience = 30_000;

const browser = await chromium.launch({
  executablePath: program,
  args: ["--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update", "--no-first-run"],
});
const said = [];

/** A page of its own browser profile, whose messages and requests are watched. */
async function open(options) {
  const context = await browser.newContext({ viewport: { width: 1280, height: 800 }, ...options });
  context.setDefaultTimeout(patience);
  const page = await context.newPage();
  page.on("console", (m) => said.push(`console: ${m.type()}: ${m.text()}`));
  page.on("pageerror", (e) => said.push(`error: ${e.stack}`));
  page.on("dialog", (d) => d.accept());
  page.on("request", (r) => r.url().startsWith(url) || /^(data|blob):/.test(r.url()) || said.push(`request to ${r.url()}`));
  await page.goto(url);
  await page.getByRole("button", { name: "Model:" }).filter({ hasText: "tales" }).waitFor();
  return page;
}

/** Fails where the page as it stands is hard to use for some. */
async function accessible(page, what) {
  await page.evaluate(axe);
  const { violations } = await page.evaluate(() => window.axe.run({ resultTypes: ["violations"] }));
  const told = violations.map((v) => `${v.id}: ${v.help}: ${v.nodes.map((n) => `${n.target} ${n.any.map((c) => c.message).join("; ")}`).join(", ")}`);
  assert.deepEqual(told, [], `${what} is not accessible`);
}

async function say(page, text) {
  await page.getByLabel("Message", { exact: true }).fill(text);
  await page.keyboard.press("Enter");
}

const answered = (page) => page.getByRole("button", { name: "Send" }).waitFor();
const lastAnswer = (page) => page.locator(".message.assistant").last();

/** Waits until is gives true. */
async function until(what, is) {
  for (const end = performance.now() + patience; !(await is()); await new Promise((resolve) => setTimeout(resolve, 20)))
    assert.ok(performance.now() < end, `${what}: not within ${patience} ms`);
}

async function limitTokens(page, n) {
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Longest answer").fill(String(n));
  await page.getByLabel("Longest answer").blur();
  await page.keyboard.press("Escape");
}

/** Makes the next answer go on until it is stopped or as long as it may be: the model could end it early, by chance. */
async function endless(page) {
  const forever = (route) => route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) });
  await page.route("**/v1/chat/completions", forever, { times: 1 });
}

async function conversation(page) {
  await limitTokens(page, 24);
  await endless(page);
  await say(page, "Tell me of the old king.");
  await lastAnswer(page).locator(".took").filter({ hasText: "24 tokens" }).waitFor();
  const text = await lastAnswer(page).locator(".markdown").innerText();
  assert.ok(text.length > 20, `an answer of 24 tokens is ${JSON.stringify(text)}`);
  await accessible(page, "a conversation");

  await page.reload();
  await lastAnswer(page).locator(".took").waitFor();
  assert.equal(await lastAnswer(page).locator(".markdown").innerText(), text, "after a reload");

  await endless(page);
  await lastAnswer(page).getByRole("button", { name: "Continue" }).click();
  await answered(page);
  const longer = await lastAnswer(page).locator(".markdown").innerText();
  assert.ok(longer.startsWith(text.trimEnd()) && longer.length > text.length, `${JSON.stringify(text)} went on as ${JSON.stringify(longer)}`);

  await lastAnswer(page).hover();
  await lastAnswer(page).getByRole("button", { name: "Retry" }).click();
  await lastAnswer(page).getByText("2/2").waitFor();
  await answered(page);
  await lastAnswer(page).getByRole("button", { name: "Previous branch" }).click();
  assert.equal(await lastAnswer(page).locator(".markdown").innerText(), longer, "the first branch");

  await page.locator(".message.user").hover();
  await page.locator(".message.user").getByRole("button", { name: "Edit" }).click();
  await page.locator(".editing textarea").fill("Tell me of the young queen.");
  await page.locator(".editing").getByRole("button", { name: "Send" }).click();
  await page.locator(".message.user").getByText("2/2").waitFor();
  await lastAnswer(page).locator(".took").waitFor();
  assert.equal(await page.locator(".message.user .said").innerText(), "Tell me of the young queen.");
}

async function stopping(page) {
  await page.getByRole("button", { name: "New conversation" }).click();
  await limitTokens(page, -1);
  await endless(page);
  await say(page, "Tell me a long story.");
  await lastAnswer(page).locator(".markdown").waitFor();
  await page.getByRole("button", { name: "Stop" }).click();
  await lastAnswer(page).getByText("stopped").waitFor();
  const text = await lastAnswer(page).locator(".markdown").innerText();
  await page.waitForTimeout(200);
  assert.equal(await lastAnswer(page).locator(".markdown").innerText(), text, "after it was stopped");
}

async function attachments(page) {
  await page.getByRole("button", { name: "New conversation" }).click();
  await limitTokens(page, 4);
  await page
    .getByLabel("Text files", { exact: true })
    .setInputFiles({ name: "king.txt", mimeType: "text/plain", buffer: Buffer.from("The king is old.\n") });
  await page.getByLabel("Files").getByText("king.txt").waitFor();
  const asked = page.waitForRequest(/chat\/completions/);
  await say(page, "Who is old?");
  const { messages } = (await asked).postDataJSON();
  assert.equal(messages[0].content, "king.txt:\n```\nThe king is old.\n```\n\nWho is old?");
  await answered(page);
  await page.getByLabel("Text files", { exact: true }).setInputFiles({ name: "king.bin", mimeType: "text/plain", buffer: Buffer.from([0xff, 0]) });
  await page.getByRole("alert").getByText("king.bin is not a text file").waitFor();
  await page.getByRole("button", { name: "Dismiss" }).click();
}

async function probabilities(page) {
  await page.getByRole("button", { name: "New conversation" }).click();
  await limitTokens(page, 8);
  await page.getByRole("button", { name: "Settings" }).click();
  await page.getByLabel("Token probabilities").check();
  await accessible(page, "the settings");
  await page.keyboard.press("Escape");
  await endless(page);
  await say(page, "Once upon a time");
  await answered(page);
  await page.locator(".tokens span", { hasText: /\w/ }).nth(1).hover(); // a token that is a line break has no size
  assert.equal(await page.locator(".likely tbody tr").count(), await likelyOf(page), "the likeliest tokens");
  await page.locator(".tokens").focus();
  await page.keyboard.press("ArrowRight");
  await page.locator(".likely .chosen").waitFor();
  await accessible(page, "token probabilities");
  await page.getByRole("button", { name: "Show as text" }).click();
  await lastAnswer(page).locator(".markdown").waitFor();
}

/** Five, and the chosen one where it is none of them. */
async function likelyOf(page) {
  const chosen = await page.locator(".likely tbody tr.chosen").count();
  assert.equal(chosen, 1, "chosen tokens among the likely ones");
  return (await page.locator(".likely tbody tr").last().getAttribute("class")) === "chosen" ? await page.locator(".likely tbody tr").count() : 5;
}

async function neurons(page) {
  await page.getByRole("button", { name: "New conversation" }).click();
  await limitTokens(page, -1);
  await endless(page);
  const heard = page.waitForResponse(/neurons\/events/); // from then on the server tells what happens
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  await heard;
  const panel = page.getByRole("complementary", { name: "Neurons" });
  await panel.getByText("Predictors choose the neurons").waitFor();
  await accessible(page, "the neurons at rest");
  await say(page, "Tell me a long story.");
  await panel.getByRole("img", { name: "Heat map of 6 layers" }).waitFor();
  const lit = (c) => {
    if (!c.width || !c.height) return 0;
    // A copy is read, since Chromium warns of a canvas that is read often.
    const copy = new OffscreenCanvas(c.width, c.height).getContext("2d", { willReadFrequently: true });
    copy.drawImage(c, 0, 0);
    const { data } = copy.getImageData(0, 0, c.width, c.height);
    const shades = new Set();
    for (let i = 3; i < data.length; i += 4) shades.add(data[i]);
    return shades.size;
  };
  await until("the heat map has more than 20 shades", async () => (await panel.locator("canvas").evaluate(lit)) > 20);
  const figures = /Speed\s*[\d.]+\s*tokens\/s.*Active\s*[\d.]+ %.*Read\s*[\d.]+ [KM]iB/; // what is first told may be of the prompt alone
  await panel.locator(".figures").filter({ hasText: figures }).waitFor();
  await panel
    .locator(".parts")
    .filter({ hasText: /Predictor [\d.]+ ms.*Attention [\d.]+ ms.*Neurons [\d.]+ ms/ })
    .waitFor();

  const slider = panel.getByLabel("Sparse threshold");
  await slider.fill("4");
  const row = panel.getByRole("row", { name: "4.0" });
  await row.waitFor();
  const far = Number(await row.getByRole("cell").nth(3).innerText());
  await slider.fill("-6");
  const near = Number(await panel.getByRole("row", { name: "−6.0" }).getByRole("cell").nth(3).innerText());
  assert.ok(near < far && far > 1e-4, `a divergence of ${far} at a threshold of 4, ${near} at -6`);
  await accessible(page, "the neurons at work");
  if (pictures) await page.screenshot({ path: `${pictures}/page-neurons.png` });
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Close the neurons" }).click();
  assert.equal(await panel.count(), 0);
}

async function archive(page) {
  await page.getByLabel("Exported conversations", { exact: true }).setInputFiles(rich);
  await page.getByRole("link", { name: "Sorting in Go" }).click();
  await page.getByText("Use the slices package:").waitFor();
  const answer = page.locator(".message.assistant").first();
  assert.equal(await answer.locator(".thoughts").getAttribute("open"), null, "thoughts are folded");
  assert.ok((await answer.locator(".hljs-keyword").count()) >= 3, "code is coloured");
  assert.equal(await answer.locator("tbody td").count(), 6);
  assert.equal(await page.locator("img, .markdown script, a[href^=javascript]").count(), 0, "what an answer may not hold");
  assert.equal(await page.title(), "PowerInfer");
  await page.locator(".call").getByText("get_weather").waitFor();
  await accessible(page, "Markdown, thoughts and calls");

  const download = page.waitForEvent("download");
  await page.getByRole("link", { name: "Sorting in Go" }).hover();
  await page.getByRole("button", { name: "Export Sorting in Go" }).click();
  const exported = JSON.parse(readFileSync(await (await download).path(), "utf8"));
  const original = JSON.parse(readFileSync(rich, "utf8"));
  assert.deepEqual(exported.conversations[0].messages, original.conversations[0].messages, "exported again");

  await page.getByRole("link", { name: "The weather" }).click();
  const asked = page.waitForRequest(/chat\/completions/);
  await limitTokens(page, 4);
  await page.getByLabel("Result of get_weather").fill("4 °C");
  await page.getByRole("button", { name: "Give to the model" }).click();
  const { messages } = (await asked).postDataJSON();
  assert.deepEqual(messages.at(-1), { role: "tool", content: "4 °C", tool_call_id: "call_1" });
  await answered(page);

  const before = await page.locator("nav li").count();
  await page.getByRole("link", { name: "The weather" }).hover();
  await page.getByRole("button", { name: "Delete The weather" }).click();
  await page.getByRole("heading", { name: "What shall we talk about?" }).waitFor();
  assert.equal(await page.locator("nav li").count(), before - 1);
}

async function themes() {
  const ground = (page) => page.evaluate(() => getComputedStyle(document.body).backgroundColor);
  const page = await open({ colorScheme: "dark" });
  const dark = await ground(page);
  await page.getByRole("button", { name: "Theme" }).click(); // light
  assert.notEqual(await ground(page), dark, "the light theme's ground");
  await page.getByRole("button", { name: "Theme" }).click(); // dark
  assert.equal(await ground(page), dark, "the dark theme's ground");
  await page.getByLabel("Exported conversations", { exact: true }).setInputFiles(rich);
  await page.getByRole("link", { name: "Sorting in Go" }).click();
  await page.getByText("Use the slices package:").waitFor();
  await accessible(page, "the dark theme");
  await page.context().close();
}

async function phone() {
  const page = await open({ viewport: { width: 375, height: 700 }, hasTouch: true });
  const fits = async (what) => assert.equal(await page.evaluate(() => document.documentElement.scrollWidth), 375, `the width of ${what}`);
  await fits("the beginning");
  await page.getByRole("button", { name: "Conversations" }).click();
  await page.getByLabel("Exported conversations", { exact: true }).setInputFiles(rich);
  await accessible(page, "the list on a phone");
  await page.getByRole("link", { name: "Sorting in Go" }).click();
  await page.getByText("Use the slices package:").waitFor();
  await fits("a conversation");
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  await page.getByText("Predictors choose the neurons").waitFor();
  await fits("the neurons");
  await page.getByRole("button", { name: "Close the neurons" }).click();
  await accessible(page, "a conversation on a phone");
  await page.getByRole("button", { name: "Model:" }).click();
  await page.getByRole("dialog").getByText("tales").waitFor();
  await fits("the models");
  await accessible(page, "the models");
  await page.keyboard.press("Escape");
  await page.context().close();
}

try {
  const page = await open({});
  await accessible(page, "the beginning");
  for (const step of [conversation, stopping, attachments, probabilities, neurons, archive]) await timed(step, page);
  await page.context().close();
  for (const step of [themes, phone]) await timed(step);
  assert.deepEqual(said, [], "messages on the console, errors, requests to elsewhere");
} catch (failure) {
  if (pictures) for (const c of browser.contexts()) for (const p of c.pages()) await p.screenshot({ path: `${pictures}/failure.png` });
  console.error(said.join("\n"));
  throw failure;
} finally {
  await browser.close();
}

async function timed(step, page) {
  const begin = performance.now();
  await step(page);
  console.log(`${step.name}: ${Math.round(performance.now() - begin)} ms`);
}
