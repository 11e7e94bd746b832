import { createConnection, type Socket } from "node:net";
import { setTimeout as sleep } from "node:timers/promises";
import { z } from "zod";

const commandTimeoutMs = 5_000;
/** Answers to what is asked here are short; a line beyond this is not QMP. */
const maxLineBytes = 1024 * 1024;

const messageSchema = z.union([
  z.object({ QMP: z.unknown() }),
  z.object({ event: z.string(), data: z.record(z.string(), z.unknown()).optional() }),
  z.object({ id: z.number(), return: z.unknown() }),
  z.object({ id: z.number().optional(), error: z.object({ class: z.string(), desc: z.string() }) }),
]);

/** QEMU refused a command, or its monitor cannot be reached. */
export class QmpError extends Error {
  override readonly name = "QmpError";
}

export type QmpEventHandler = (event: string, data: Readonly<Record<string, unknown>>) => void;

interface Waiting {
  resolve(value: unknown): void;
  reject(error: Error): void;
  timer: NodeJS.Timeout;
}

/** A client of QEMU's machine protocol: JSON lines over a Unix socket, one client a socket. */
export class Qmp {
  private buffered = "";
  private nextId = 1;
  private readonly waiting = new Map<number, Waiting>();

  private constructor(
    private readonly socket: Socket,
    private readonly onEvent: QmpEventHandler,
  ) {
    socket.setEncoding("utf8");
    socket.on("data", (text: string) => this.take(text));
    socket.on("error", (error) => this.fail(error));
    socket.on("close", () => this.fail(new QmpError("QEMU closed its monitor")));
  }

  /** Connects and negotiates; retries while QEMU has not made the socket yet. Throws {@link QmpError}. */
  static async connect({
    path,
    timeoutMs,
    onEvent = () => {},
  }: {
    path: string;
    timeoutMs: number;
    onEvent?: QmpEventHandler;
  }): Promise<Qmp> {
    const deadline = performance.now() + timeoutMs;
    for (;;) {
      try {
        const qmp = new Qmp(await connectOnce(path), onEvent);
        await qmp.execute("qmp_capabilities", {}, Math.max(1, deadline - performance.now()));
        return qmp;
      } catch (cause) {
        const { code, message } = cause as NodeJS.ErrnoException;
        const notYet = code === "ENOENT" || code === "ECONNREFUSED";
        if (!notYet || performance.now() >= deadline) {
          throw new QmpError(`no monitor at ${path}: ${message}`, { cause });
        }
        await sleep(20);
      }
    }
  }

  execute(command: string, args: Record<string, unknown> = {}, timeoutMs = commandTimeoutMs): Promise<unknown> {
    const id = this.nextId++;
    return new Promise((resolve, reject) => {
      if (this.socket.destroyed) {
        reject(new QmpError(`${command}: QEMU closed its monitor`));
        return;
      }
      const timer = setTimeout(() => {
        this.waiting.delete(id);
        reject(new QmpError(`${command}: no answer from QEMU within ${timeoutMs / 1000} s`));
      }, timeoutMs);
      this.waiting.set(id, { resolve, reject, timer });
      this.socket.write(`${JSON.stringify({ execute: command, arguments: args, id })}\n`);
    });
  }

  close(): void {
    this.socket.destroy();
  }

  private take(text: string): void {
    this.buffered += text;
    for (;;) {
      const newline = this.buffered.indexOf("\n");
      if (newline < 0) break;
      const line = this.buffered.slice(0, newline);
      this.buffered = this.buffered.slice(newline + 1);
      this.takeLine(line);
    }
    if (this.buffered.length > maxLineBytes) this.socket.destroy(new QmpError("QEMU's monitor sent an endless line"));
  }

  private takeLine(line: string): void {
    if (line.trim() === "") return;
    let parsed: z.infer<typeof messageSchema>;
    try {
      parsed = messageSchema.parse(JSON.parse(line));
    } catch (cause) {
      this.socket.destroy(new QmpError("QEMU's monitor sent something that is not QMP", { cause }));
      return;
    }
    if ("event" in parsed) this.onEvent(parsed.event, parsed.data ?? {});
    else if ("return" in parsed) this.settle(parsed.id, (waiting) => waiting.resolve(parsed.return));
    else if ("error" in parsed) this.settle(parsed.id, (waiting) => waiting.reject(new QmpError(parsed.error.desc)));
  }

  private settle(id: number | undefined, how: (waiting: Waiting) => void): void {
    const waiting = id === undefined ? undefined : this.waiting.get(id);
    if (id === undefined || waiting === undefined) return;
    this.waiting.delete(id);
    clearTimeout(waiting.timer);
    how(waiting);
  }

  private fail(error: Error): void {
    for (const id of [...this.waiting.keys()]) this.settle(id, (waiting) => waiting.reject(error));
  }
}

function connectOnce(path: string): Promise<Socket> {
  return new Promise((resolve, reject) => {
    const socket = createConnection({ path });
    socket.once("error", reject);
    socket.once("connect", () => {
      socket.off("error", reject);
      resolve(socket);
    });
  });
}
