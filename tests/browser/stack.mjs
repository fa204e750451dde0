// A real `kazma up` with a data folder of its own, and a browser that looks at it.

import { spawn } from "node:child_process";
import { once } from "node:events";
import { chmod, mkdtemp, rm } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { createInterface } from "node:readline";

import { chromium } from "playwright-core";

const binary = process.env.KAZMA_TEST_BIN;
if (!binary) throw new Error("KAZMA_TEST_BIN must name the kazma program; scripts/test sets it");

export class Stack {
  static async start(flags = ["--demo"], environment = {}) {
    const stack = new Stack();
    stack.folder = await mkdtemp(join(tmpdir(), "kazma-browser-"));
    // The services have users of their own when root runs this.
    await chmod(stack.folder, 0o711);
    stack.flags = flags;
    stack.environment = environment;
    await stack.up();
    return stack;
  }

  async up() {
    const listen = `127.0.0.1:${this.port ?? 0}`;
    const arguments_ = ["up", "--json", "--data-dir", this.folder, "--listen", listen, ...this.flags];
    this.process = spawn(binary, arguments_, {
      stdio: ["ignore", "pipe", "inherit"],
      env: { PATH: process.env.PATH, HOME: this.folder, KAZMA_SANDBOX: "native", ...this.environment },
    });
    const lines = createInterface({ input: this.process.stdout });
    const first = await Promise.race([
      once(lines, "line").then(([line]) => line),
      once(this.process, "exit").then(([code]) => {
        throw new Error(`kazma up ended with ${code}`);
      }),
    ]);
    Object.assign(this, JSON.parse(first));
    this.port = Number(new URL(this.url).port);
  }

  async down() {
    const ended = once(this.process, "exit");
    this.process.kill("SIGTERM");
    await ended;
  }

  async end() {
    await this.down();
    await rm(this.folder, { recursive: true, force: true });
  }

  async api(method, path, body, token = this.api_token) {
    const headers = { authorization: `Bearer ${token}` };
    if (body !== undefined) headers["content-type"] = "application/json";
    const answer = await fetch(`http://127.0.0.1:${this.port}${path}`, {
      method,
      headers,
      body: body === undefined ? undefined : JSON.stringify(body),
    });
    const text = await answer.text();
    return { status: answer.status, body: text ? JSON.parse(text) : null };
  }

  async command(...arguments_) {
    const child = spawn(binary, [...arguments_, "--data-dir", this.folder], {
      stdio: ["ignore", "pipe", "inherit"],
    });
    let output = "";
    child.stdout.on("data", (chunk) => (output += chunk));
    const [code] = await once(child, "close");
    if (code !== 0) throw new Error(`kazma ${arguments_.join(" ")} ended with ${code}`);
    return output.trim();
  }
}

export async function browser() {
  return chromium.launch({
    executablePath: "/usr/bin/chromium",
    args: [
      "--no-sandbox",
      "--disable-gpu",
      "--disable-quic",
      "--no-first-run",
      "--disable-background-networking",
      "--disable-component-update",
      "--disable-sync",
    ],
  });
}

/// A page of a signed-in person that fails the test on any error or policy violation it logs.
export async function signedIn(browser, link, options = {}) {
  const context = await browser.newContext(options);
  const page = await context.newPage();
  page.troubles = [];
  page.on("console", (message) => {
    if (message.type() === "error") page.troubles.push(message.text());
  });
  page.on("pageerror", (error) => page.troubles.push(String(error)));
  await page.goto(link);
  await page.waitForURL((url) => !url.pathname.startsWith("/login"));
  return page;
}
