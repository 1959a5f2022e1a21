import assert from "node:assert/strict";
import { accessible, endless, lastAnswer, limitTokens, pictures, say, until } from "./browser.mjs";

export async function neurons(page) {
  await page.getByRole("button", { name: "New conversation" }).click();
  await limitTokens(page, 24);
  await endless(page);
  await say(page, "Tell me of the old king.");
  await lastAnswer(page).locator(".took").filter({ hasText: "24 tokens" }).waitFor();
  await limitTokens(page, -1);
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  const panel = page.getByRole("complementary", { name: "Neurons" });
  // What was answered before it opened.
  await panel.getByRole("heading", { name: "The last answer" }).waitFor();
  await panel
    .locator(".figures")
    .filter({ hasText: /Speed\s*[\d.]+\s*tokens\/s\s*Active\s*[\d.]+ %/ })
    .waitFor();
  await page.reload();
  await panel.getByRole("heading", { name: "The last answer" }).waitFor();
  assert.ok((await panel.locator(".chart path").first().getAttribute("d")).length > 20, "a chart after a reload");
  await endless(page);
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
  await chartsFill(panel);
  if (pictures) await page.screenshot({ path: `${pictures}/page-neurons.png` });

  // The reader's place stays while there is news, and when the panel is shown again.
  const place = () => panel.evaluate((p) => p.scrollTop);
  await panel.evaluate((p) => (p.scrollTop = 150));
  const news = await panel.locator(".figures").innerText();
  await until("other figures", async () => (await panel.locator(".figures").innerText()) !== news);
  assert.equal(await place(), 150, "the place while there is news");
  await page.getByRole("button", { name: "Close the neurons" }).click();
  await page.getByRole("button", { name: "Neurons", exact: true }).click();
  assert.equal(await place(), 150, "the place after the panel was closed");
  await page.getByRole("button", { name: "Stop" }).click();
  await page.getByRole("button", { name: "Close the neurons" }).click();
  assert.equal(await panel.count(), 0);
}

/** Fails unless the lines of all charts go from edge to edge. */
export async function chartsFill(panel) {
  for (const chart of await panel.locator(".chart").all()) {
    const title = await chart.locator("figcaption span").first().innerText();
    for (const line of await chart.locator("path").all()) {
      const ends = await line.evaluate((p) => [p.getBBox().x, p.getBBox().width]);
      assert.deepEqual(ends, [0, 300], `the ${await line.getAttribute("class")} line of ${title}`);
    }
  }
}
