import assert from "node:assert/strict";
import { accessible, answered, finish, lastAnswer, open, push, rich, say, scripted, until } from "./browser.mjs";

/** Line breaks, formulas, and what looks like one. */
export async function text(page) {
  await page.getByLabel("Exported conversations", { exact: true }).setInputFiles(rich);
  await page.getByRole("link", { name: "Formulas" }).click();
  await page.getByText("Roses are red").waitFor();
  const said = (nth) => page.locator(".message.user .said").nth(nth).innerText();
  assert.equal(await said(0), "Formulas, please.\nOne a line.");
  const blocks = lastAnswer(page).locator(".markdown > *");
  const of = (nth) => blocks.nth(nth).innerText();
  assert.equal(await of(0), "Roses are red,\nviolets are blue.");
  assert.equal(
    await of(1),
    "It costs $5 and $6, or $1,000–$2,000; US$ 5, or CA$ 6; $5, or US$ 7; 3$ more. Set PATH=$HOME:$PATH and x is [no link](x), (only words in here).",
  );
  const formulas = await lastAnswer(page)
    .locator("[data-tex]")
    .evaluateAll((all) =>
      all.map((e) => [
        e.dataset.tex,
        e.querySelector("math").getAttribute("display") ?? "inline",
        !!e.querySelector("mfrac, msup, msub, mtable, mover"),
      ]),
    );
  const drawn = (tex, display = "inline") => [tex, display, true];
  assert.deepEqual(formulas, [
    drawn("$E = mc^2$"),
    drawn("\\(a^2 + b^2\\)"),
    drawn("$x*y*z^2$"),
    drawn("$$\\frac{1}{2}$$", "block"),
    drawn("\\[\nx_1\n= 2\n+ 3\n\\]", "block"),
    drawn("\\begin{align*}\na^2 &= b\\\\\nc &= d\n\\end{align*}", "block"),
    drawn("$\\bar{x} \\quad y$"),
    drawn("$\\pi r^2$"),
    drawn("\\(5% \\cdot 20^2\\)"),
  ]);
  assert.equal(await lastAnswer(page).locator("em [data-tex]").count(), 1, "a formula with stars in an emphasis");
  assert.match(await lastAnswer(page).locator("[data-tex*='5%']").innerText(), /%/, "what follows a percent sign");
  assert.equal(await lastAnswer(page).locator("mspace").getAttribute("width"), "1em", "a space");
  const whole = await lastAnswer(page).locator(".markdown").innerText();
  for (const source of ["$\\frac{1}{$", "\\(\\nosuchthing{x}\\)", "[Alice]: Hello", "$code$ \\(x\\)", "\\(x_{1} + \\frac{a_1", "a\nb"])
    assert.ok(whole.includes(source), `${JSON.stringify(source)} is missing in ${JSON.stringify(whole)}`);
  assert.equal(await page.locator("math [href], math [style*=url], .markdown script").count(), 0, "what a formula may not hold");
  await accessible(page, "formulas");
}

/** An answer that comes piece by piece: nothing of it is missing at any time, and what was drawn stays. */
export async function streaming() {
  const page = await open({});
  await scripted(page);
  await say(page, "A formula, please.");
  const answer = lastAnswer(page).locator(".markdown");
  const sources = () =>
    answer.evaluate((a) => {
      const copy = a.cloneNode(true);
      for (const f of copy.querySelectorAll("[data-tex]")) f.replaceWith(f.dataset.tex);
      return copy.textContent;
    });
  let sent = "";
  let drawn = 0;
  for (const piece of [
    "With $x",
    "_1 = \\fra",
    "c{a}{b}$",
    " and \\(y",
    "_2^",
    "{3}\\) it",
    " is\n\n\\[",
    "\\{a_1",
    "\\} * b_2",
    " * c",
    "\n\\]",
    "\n\nfor $5.",
  ]) {
    await push(page, piece);
    sent += piece;
    await until(`${JSON.stringify(sent)} is shown`, async () => (await sources()).replace(/\s/g, "") === sent.replace(/\s/g, ""));
    const now = await answer.locator("math").count();
    assert.ok(now >= drawn, `${now} formulas after ${drawn}`);
    drawn = now;
  }
  assert.equal(drawn, 3, "formulas at the end");
  await finish(page);
  await answered(page);
  await page.context().close();
}
