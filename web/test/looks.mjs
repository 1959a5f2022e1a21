import assert from "node:assert/strict";
import { accessible, open, rich } from "./browser.mjs";

export async function themes() {
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

export async function phone() {
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
