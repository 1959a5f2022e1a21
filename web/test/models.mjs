import assert from "node:assert/strict";
import { accessible, answered, laidOut, lastAnswer, library, open, say, until } from "./browser.mjs";
import { chartsFill } from "./neurons.mjs";

const dialogOf = (page) => page.getByRole("dialog", { name: "Models" });

async function openModels(page) {
  await page.getByRole("button", { name: "Model:" }).click();
  await dialogOf(page).waitFor();
  return dialogOf(page);
}

async function statusOf(page, name) {
  const { data } = await (await page.request.get(`${library}v1/models`)).json();
  return data.find((m) => m.id === name)?.status.value;
}

/** A server of one model, the demo: it says so, and offers nothing that it cannot do. */
export async function oneModel() {
  const page = await open({});
  await page.getByText("This is a demo: a tiny model that tells tales").waitFor();
  assert.match(await page.getByRole("note").innerText(), /powerinfer serve qwen3:0\.6b/);
  await page.getByLabel("Message", { exact: true }).fill("A tale");
  const dialog = await openModels(page);
  await dialog.getByText(/MiB/).waitFor();
  await dialog.getByText("This server has one model").waitFor();
  await dialog.getByText("powerinfer serve qwen3:4b").waitFor();
  assert.equal(await dialog.getByRole("button", { name: /Unload|Load|Download/ }).count(), 0, "buttons for what the server does not do");
  await page.context().close();
}

/** A server of several models: they are loaded and unloaded, and the neurons follow. */
export async function severalModels() {
  const page = await open({}, library);
  await page.getByRole("heading", { name: "What shall we talk about?" }).waitFor();
  assert.equal(await page.getByRole("note").count(), 0, "a note of a demo");
  assert.deepEqual([await statusOf(page, "first"), await statusOf(page, "second")], ["unloaded", "unloaded"], "looking at the page loads nothing");
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  const panel = page.getByRole("complementary", { name: "Neurons" });
  await panel.getByText("first is not loaded").waitFor();
  await say(page, "Tell me of the king.");
  await panel.getByRole("heading", { name: "The last answer" }).waitFor();
  await answered(page);
  await chartsFill(panel);

  let dialog = await openModels(page);
  await dialog
    .getByText(/llama · [\d.]+M · \w+ · [\d.]+ MiB/)
    .first()
    .waitFor();
  await accessible(page, "several models");
  await dialog.getByRole("button", { name: "second" }).filter({ hasText: "not loaded" }).click();
  await panel.getByText("second is not loaded").waitFor();
  assert.equal(await panel.locator(".figures").count(), 0, "figures of another model");
  await page.getByRole("button", { name: "New conversation" }).click();
  await say(page, "And of the queen.");
  await panel.getByRole("heading", { name: "The last answer" }).waitFor();
  await answered(page);

  dialog = await openModels(page);
  const button = (name) => dialog.getByRole("button", { name, exact: true });
  await button("Unload second").click();
  await button("Load second").waitFor();
  assert.equal(await statusOf(page, "second"), "unloaded");
  await page.keyboard.press("Escape");
  dialog = await openModels(page); // asks for the list once more
  await button("Load second").waitFor();
  assert.equal(await statusOf(page, "second"), "unloaded", "it stays so");
  await button("Load second").click();
  await button("Unload second").waitFor();
  await page.context().close();
}

/** Models are searched, and others are fetched. */
export async function fetching() {
  const page = await open({}, library);
  let dialog = await openModels(page);
  const search = dialog.getByLabel("Search");
  await search.fill("seco");
  const names = (list) => dialog.getByRole("list", { name: list }).locator(".name").allInnerTexts();
  assert.deepEqual(await names("Models of this server"), ["second"]);
  await search.fill("qwen");
  assert.deepEqual(await dialog.getByRole("region", { name: "Download a model" }).locator(".name").allInnerTexts(), ["qwen", "qwen3:8b"]);

  await dialog.getByText("too large for this machine's 4.0 GiB of RAM").waitFor();
  await search.fill("tales/nothing");
  await dialog.getByRole("button", { name: "Download tales/nothing" }).click();
  await dialog.getByRole("alert").getByText("tales/nothing").waitFor();
  await dialog.getByRole("button", { name: "Dismiss" }).click();

  await search.fill("small");
  await dialog.getByRole("button", { name: "Download tales:small" }).click();
  await dialog.getByText(/B of [\d.]+ MiB/).waitFor();
  await accessible(page, "a model that is being fetched");
  await dialog.getByRole("button", { name: /^Stop the download/ }).click();
  await dialog.getByRole("progressbar").waitFor({ state: "detached" });
  await dialog.getByRole("button", { name: "Download tales:small" }).click();
  await dialog.getByRole("button", { name: "tales/small:Q8_0" }).first().waitFor();
  await dialog.getByRole("button", { name: "Downloaded tales:small" }).waitFor();
  await page.keyboard.press("Escape");
  await page.getByRole("button", { name: "Model:" }).filter({ hasText: "tales/small:Q8_0" }).waitFor();
  await page.context().close();
}

/** A conversation that the context has no room for goes on, and the page says what it did. */
export async function fullContext() {
  const page = await open({}, library);
  await page
    .getByRole("button", { name: "Model:" })
    .filter({ hasText: /first|second/ })
    .waitFor();
  await page.route("**/v1/chat/completions", (route) =>
    route.continue({ postData: JSON.stringify({ ...route.request().postDataJSON(), ignore_eos: true }) }),
  );
  await say(page, "Tell me of the king.");
  await page.getByText("The context of 256 tokens is full").waitFor();
  assert.equal(await page.getByRole("button", { name: "Continue" }).count(), 0, "an offer to go on without room");

  const asked = page.waitForRequest(/chat\/completions$/);
  await say(page, "Tell me of the queen.");
  const { messages } = (await asked).postDataJSON();
  assert.deepEqual(messages, [{ role: "user", content: "Tell me of the queen." }]);
  await page.getByText("The model no longer sees what is above").waitFor();
  await answered(page);
  assert.ok((await lastAnswer(page).locator(".markdown").innerText()).length > 100, "a second answer");
  await accessible(page, "a conversation that is too long");

  await say(page, "king ".repeat(400));
  await lastAnswer(page)
    .getByRole("alert")
    .getByText(/tokens.*256.*Shorten it/)
    .waitFor();
  await page.context().close();
}

/** The place in a conversation stays while the neurons take its room. */
export async function places() {
  const page = await open({ viewport: { width: 700, height: 600 } });
  await page.getByRole("button", { name: "Conversations" }).click();
  await page.getByLabel("Exported conversations", { exact: true }).setInputFiles(new URL("conversation.json", import.meta.url).pathname);
  await page.getByRole("link", { name: "Formulas" }).click();
  const view = page.getByRole("group", { name: "Messages" });
  await view.getByText("Roses are red").waitFor();
  await view.hover();
  await page.mouse.wheel(0, -300);
  const place = () => view.evaluate((v) => v.scrollTop);
  const top = () =>
    page.getByText("It costs").evaluate((e) => Math.round(e.getBoundingClientRect().top - e.closest(".messages").getBoundingClientRect().top));
  await until("the view is further up", async () => (await view.evaluate((v) => v.scrollHeight - v.clientHeight - v.scrollTop)) > 200);
  const before = await place();
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  await page.getByText("Predictors choose the neurons").waitFor();
  await page.getByRole("button", { name: "Close the neurons" }).click();
  assert.equal(await place(), before, "where the conversation is not seen");
  await page.setViewportSize({ width: 1200, height: 600 });
  await laidOut(page);
  const wide = await top();
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  await page.getByText("Predictors choose the neurons").waitFor();
  assert.ok(Math.abs((await top()) - wide) <= 2, `the text went from ${wide} to ${await top()}`);
  await page.context().close();
}
