// The story: a person approves one exact call, and exactly that call runs.

import assert from "node:assert/strict";
import { mkdir } from "node:fs/promises";
import { after, before, test } from "node:test";

import { Stack, browser, signedIn } from "./stack.mjs";

const code = "print(sum(range(10)))";
const pictures = process.env.KAZMA_TEST_PICTURES;
let chromium;
let stack;

before(async () => {
  chromium = await browser();
  stack = await Stack.start();
  if (pictures) await mkdir(pictures, { recursive: true });
});

after(async () => {
  await chromium?.close();
  await stack?.end();
});

async function picture(page, name) {
  if (pictures) await page.screenshot({ path: `${pictures}/${name}.png` });
}

async function say(page, text) {
  await page.fill("#text", text);
  await page.click("button.primary:has-text('Send')");
}

/// Waits for something on a page; says what the page shows instead.
async function there(page, what, locator, timeout) {
  try {
    await locator.waitFor({ timeout });
  } catch (error) {
    const text = await page.evaluate(() => document.body.innerText);
    throw new Error(`no ${what} at ${page.url()}: ${text}\n${page.troubles}`, { cause: error });
  }
}

async function cardOn(page) {
  const card = waiting(page).first();
  await there(page, "card", card, 15_000);
  return card;
}

async function answered(page, text) {
  await there(page, `answer with ${text}`, page.locator(`.message.agent .body:has-text('${text}')`).first(), 30_000);
}

const waiting = (page) => page.locator("article.card[data-state=waiting]:visible");

test("approve: the whole code is on the card, and 45 comes back", async () => {
  const page = await signedIn(chromium, stack.login_url);
  await say(page, `run python: ${code}`);
  const card = await cardOn(page);
  assert.match(await card.innerText(), /print\(sum\(range\(10\)\)\)/);
  assert.match(await card.innerText(), /native/);
  await picture(page, "card-light");
  await card.locator("[data-approve]").click();
  await answered(page, "45");
  await page.locator("article.card[data-state=ran]").first().waitFor({ state: "attached" });
  await picture(page, "ran-light");
  assert.deepEqual(page.troubles, []);
  await page.context().close();
});

test("deny: nothing runs, the agent says so and goes on", async () => {
  const link = (await stack.api("POST", "/api/auth/links", {})).body.login_url;
  const page = await signedIn(chromium, link, { colorScheme: "dark" });
  await say(page, "run python: open('/tmp/x','w').write('no')");
  const card = await cardOn(page);
  await picture(page, "card-dark");
  await card.locator("button.deny").first().click();
  await answered(page, "denied");
  await say(page, "hello again");
  await page.locator(".message.agent").nth(1).waitFor();
  assert.deepEqual(page.troubles, []);
  await page.context().close();
});

test("two tabs agree, and the later answer hears who was first", async () => {
  const first = await signedIn(chromium, (await stack.api("POST", "/api/auth/links", {})).body.login_url);
  const link = await stack.command("users", "add", "Petra", "--role", "approver");
  const second = await signedIn(chromium, link);
  await say(first, "run python: print(6*7)");
  await cardOn(first);
  await second.goto(`${stack.url}/approvals`);
  const theirs = waiting(second).first();
  await theirs.waitFor();
  const gate = await theirs.getAttribute("data-gate");
  const digest = await theirs.locator("input[name=args_digest]").first().inputValue();
  await waiting(first).first().locator("[data-approve]").click();
  // The other tab hears of it by itself.
  await second.locator(`article.card[data-gate="${gate}"]:not([data-state=waiting])`).waitFor({ timeout: 3000 });
  const late = await second.evaluate(
    async ([gate, digest]) => {
      const csrf = document.querySelector("input[name=csrf]")?.value
        ?? document.querySelector("meta[name=csrf]")?.content ?? "";
      const answer = await fetch(`/api/gates/${gate}/decision`, {
        method: "POST",
        headers: { "content-type": "application/json", "x-csrf-token": csrf },
        body: JSON.stringify({ decision: "approve", args_digest: digest }),
      });
      return { status: answer.status, body: await answer.json() };
    },
    [gate, digest],
  );
  assert.equal(late.status, 409, JSON.stringify(late));
  assert.equal(late.body.decision, "approve");
  assert.equal(late.body.decided_by, "operator");
  await first.context().close();
  await second.context().close();
});

test("with two people a denial is a vote, and an approval settles", async () => {
  const other = await signedIn(chromium, await stack.command("users", "add", "Nadia", "--role", "operator"));
  const thread = (await stack.api("POST", "/api/threads", {})).body.thread_id;
  await stack.api("POST", `/api/threads/${thread}/messages`, { text: "run python: print(3*37)" });
  await other.goto(`${stack.url}/threads/${thread}`);
  const card = await cardOn(other);
  assert.match(await card.innerText(), /One approval settles it/);
  const decision = { decision: "deny", args_digest: await card.locator("input[name=args_digest]").first().inputValue() };
  const gate = await card.getAttribute("data-gate");
  const vote = await stack.api("POST", `/api/gates/${gate}/decision`, decision);
  assert.deepEqual([vote.status, vote.body.settled, vote.body.votes.length], [200, false, 1]);
  const again = await stack.api("POST", `/api/gates/${gate}/decision`, decision);
  assert.deepEqual([again.status, again.body.votes.length], [200, 1]);
  // The card says of the vote, and its button is elsewhere for it.
  await card.locator(".caution").waitFor();
  await card.locator("[data-approve]").click();
  await answered(other, "111");
  await other.context().close();
});

test("a card that changes while the button is down waits for the release", async () => {
  const link = (await stack.api("POST", "/api/auth/links", {})).body.login_url;
  const page = await signedIn(chromium, link);
  const thread = (await stack.api("POST", "/api/threads", {})).body.thread_id;
  await stack.api("POST", `/api/threads/${thread}/messages`, { text: "run python: print(9*12)", wait: "blocking" });
  await page.goto(`${stack.url}/threads/${thread}`);
  const card = await cardOn(page);
  const extend = card.locator("button:has-text('Extend'):visible");
  await extend.waitFor();
  const approve = card.locator("[data-approve]:enabled");
  await approve.hover();
  await page.mouse.down();
  // The card loses a button and says another time; its part is fetched, and not yet shown.
  const fetched = page.waitForResponse((answer) => answer.url().includes("/ui/gates/"));
  const gate = await card.getAttribute("data-gate");
  assert.equal((await stack.api("POST", `/api/gates/${gate}/extend`, {})).status, 200);
  await (await fetched).finished();
  await page.evaluate(() => new Promise((frame) => requestAnimationFrame(() => requestAnimationFrame(frame))));
  assert.equal(await extend.count(), 1);
  await page.mouse.up();
  await answered(page, "108");
  assert.deepEqual(page.troubles, []);
  await page.context().close();
});

test("a card in its last minute can be given more time", async () => {
  const link = (await stack.api("POST", "/api/auth/links", {})).body.login_url;
  const page = await signedIn(chromium, link);
  const thread = (await stack.api("POST", "/api/threads", {})).body.thread_id;
  await stack.api("POST", `/api/threads/${thread}/messages`, { text: "run python: print(6*7)", wait: "blocking" });
  await page.goto(`${stack.url}/threads/${thread}`);
  const card = await cardOn(page);
  const more = card.locator("button:has-text('Extend'):visible");
  await more.waitFor();
  await picture(page, "card-last-minute");
  await more.click();
  await card.locator(".left:has-text('9:5')").waitFor();
  assert.equal(await more.count(), 0);
  await card.locator("[data-approve]").click();
  await answered(page, "42");
  assert.deepEqual(page.troubles, []);
  await page.context().close();
});

test("a card survives a stop of everything, and runs once after it", async () => {
  const created = await stack.api("POST", "/api/threads", {});
  const thread = created.body.thread_id;
  await stack.api("POST", `/api/threads/${thread}/messages`, { text: "run python: print(2**20)" });
  let gate;
  while (!gate) {
    const gates = (await stack.api("GET", "/api/gates?state=pending")).body.gates;
    gate = gates.find((one) => one.thread_id === thread);
  }
  await stack.down();
  await stack.up();
  const page = await signedIn(chromium, stack.login_url, { javaScriptEnabled: true });
  await page.goto(`${stack.url}/approvals`);
  const card = page.locator(`article.card[data-gate="${gate.gate_id}"]:visible`).first();
  await card.waitFor();
  await picture(page, "inbox");
  await Promise.all([page.waitForResponse(/decision$/), card.locator("[data-approve]").click()]);
  await page.goto(`${stack.url}/threads/${thread}`);
  await answered(page, "1048576");
  let view;
  do view = (await stack.api("GET", `/api/threads/${thread}`)).body;
  while (view.turns.at(-1).state !== "done");
  assert.equal(view.messages.filter((one) => one.role === "tool").length, 1);
  await page.context().close();
});

test("without scripts: sign in, ask, approve, read", async () => {
  const link = (await stack.api("POST", "/api/auth/links", {})).body.login_url;
  const context = await chromium.newContext({ javaScriptEnabled: false });
  const page = await context.newPage();
  await page.goto(`${stack.url}/login`);
  await page.fill("#secret", new URL(link).hash.replace("#token=", ""));
  await page.click("button:has-text('Sign in')");
  await say(page, "run python: print(7*11)");
  await page.waitForURL(/\/threads\//);
  // No scripts, no live page: a person reloads.
  while ((await waiting(page).count()) === 0) await page.reload();
  await waiting(page).first().locator("[data-approve]").click();
  while ((await page.locator(".message.agent .body:has-text('77')").count()) === 0) await page.reload();
  await context.close();
});

test("on a phone and from right to left nothing is cut off", async () => {
  const link = (await stack.api("POST", "/api/auth/links", {})).body.login_url;
  const page = await signedIn(chromium, link, { viewport: { width: 390, height: 844 } });
  await say(page, "run python: print('سلام')\nprint('x' * 200)");
  await cardOn(page);
  await picture(page, "card-phone");
  const wide = await page.evaluate(() => document.documentElement.scrollWidth > window.innerWidth);
  assert.equal(wide, false);
  await page.context().close();
});
