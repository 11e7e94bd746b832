/** A terminal for tests: a program on a real pty, and the screen that a user would look at. */
import { join } from "node:path";
import { Terminal } from "@xterm/headless";

const driver = join(import.meta.dir, "driver.mjs");
const untilMs = 20_000;

export interface TerminalExit {
  readonly code: number;
  readonly signal: number | undefined;
}

type DriverMessage =
  | { readonly pid: number }
  | { readonly output: string }
  | { readonly exit: number; readonly signal?: number };

export interface TestTerminalOptions {
  readonly command: readonly [string, ...string[]];
  readonly cols?: number;
  readonly rows?: number;
  readonly env?: Readonly<Record<string, string>>;
}

export class TestTerminal implements AsyncDisposable {
  readonly #driver: Bun.Subprocess<"pipe", "pipe", "inherit">;
  readonly #screen: Terminal;
  readonly #output: Uint8Array[] = [];
  readonly exited: Promise<TerminalExit>;
  #exit: (exit: TerminalExit) => void = () => {};
  #started: (pid: number) => void = () => {};
  readonly #pid: Promise<number>;
  #changed: () => void = () => {};

  private constructor({ command: [file, ...args], cols = 80, rows = 24, env }: TestTerminalOptions) {
    this.#screen = new Terminal({ cols, rows, allowProposedApi: true, scrollback: 5_000, logLevel: "off" });
    this.#screen.onData((answer) => this.type(answer));
    this.exited = new Promise((resolve) => {
      this.#exit = resolve;
    });
    this.#pid = new Promise((resolve) => {
      this.#started = resolve;
    });
    const request = { file, args, cols, rows, cwd: process.cwd(), env: { ...process.env, TERM: "xterm", ...env } };
    this.#driver = Bun.spawn(["node", driver, JSON.stringify(request)], {
      stdin: "pipe",
      stdout: "pipe",
      stderr: "inherit",
    });
    void this.#listen();
  }

  static async start(options: TestTerminalOptions): Promise<TestTerminal> {
    const terminal = new TestTerminal(options);
    await terminal.#pid;
    return terminal;
  }

  /** pid of the program on the terminal */
  get pid(): Promise<number> {
    return this.#pid;
  }

  /** Presses keys; a string is sent as UTF-8. */
  type(keys: string | Uint8Array): void {
    this.#tell({ write: Buffer.from(keys as string).toString("base64") });
  }

  resize(cols: number, rows: number): void {
    this.#screen.resize(cols, rows);
    this.#tell({ resize: [cols, rows] });
  }

  /** Stops taking the program's output, as a terminal that hangs, or goes on. */
  flow(flow: "pause" | "resume"): void {
    this.#tell({ flow });
  }

  /** Every byte that the program wrote. */
  get output(): Buffer {
    return Buffer.concat(this.#output);
  }

  /** The rows that the user sees, without trailing blanks. */
  get screen(): string[] {
    const buffer = this.#screen.buffer.active;
    return Array.from({ length: this.#screen.rows }, (_, row) =>
      (buffer.getLine(buffer.viewportY + row)?.translateToString(true) ?? "").trimEnd(),
    );
  }

  get text(): string {
    return this.screen.join("\n");
  }

  /** whether a full-screen program has the screen */
  get alternate(): boolean {
    return this.#screen.buffer.active.type === "alternate";
  }

  /** Waits until the screen is as wanted. Throws with the screen when it does not come to that. */
  async until(wanted: string | RegExp | (() => boolean), timeoutMs = untilMs): Promise<void> {
    const deadline = performance.now() + timeoutMs;
    const met = (): boolean => {
      if (typeof wanted === "function") return wanted();
      return typeof wanted === "string" ? this.text.includes(wanted) : wanted.test(this.text);
    };
    while (!met()) {
      if (performance.now() > deadline) throw new Error(`${wanted} is not on the screen:\n${this.text.trimEnd()}`);
      await new Promise<void>((resolve) => {
        this.#changed = resolve;
        setTimeout(resolve, 50);
      });
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.#driver.stdin.end();
    await this.#driver.exited;
    this.#screen.dispose();
  }

  #tell(message: object): void {
    if (this.#driver.exitCode !== null) return;
    this.#driver.stdin.write(`${JSON.stringify(message)}\n`);
    this.#driver.stdin.flush();
  }

  async #listen(): Promise<void> {
    let rest = "";
    for await (const chunk of this.#driver.stdout.pipeThrough(new TextDecoderStream())) {
      const lines = (rest + chunk).split("\n");
      rest = lines.pop() ?? "";
      for (const line of lines) this.#hear(JSON.parse(line) as DriverMessage);
    }
    this.#ended({ code: -1, signal: undefined });
  }

  /** Behind everything that was written: the screen takes that in its own time. */
  #ended(exit: TerminalExit): void {
    this.#screen.write("", () => this.#exit(exit));
  }

  #hear(message: DriverMessage): void {
    if ("pid" in message) this.#started(message.pid);
    else if ("exit" in message) this.#ended({ code: message.exit, signal: message.signal || undefined });
    else {
      const bytes = Buffer.from(message.output, "base64");
      this.#output.push(bytes);
      this.#screen.write(bytes, () => this.#changed());
    }
  }
}
