import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { accessible, answered, endless, lastAnswer, limitTokens, rich, say } from "./browser.mjs";

export async function conversation(page) {
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

export async function stopping(page) {
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

export async function attachments(page) {
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

export async function probabilities(page) {
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
  await page.locator(".likely .chosen").waitFor();
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

export async function archive(page) {
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
  await page.getByRole("heading", { name: "Begin a tale, and the model goes on" }).waitFor();
  assert.equal(await page.locator("nav li").count(), before - 1);
}
