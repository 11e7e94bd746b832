import { maxFrameBytes } from "#protocol/control/limits.ts";
import { decodeMessage, encodeMessage, type WireMessage } from "#protocol/control/message.ts";
import { type HelloReply, helloReply } from "#protocol/control/replies.ts";
import { frameHeaderBytes } from "#protocol/framing.ts";
import { ports } from "#protocol/ports.ts";
import { dial } from "../transport/dial.ts";
import { type Address, formatTarget } from "../transport/target.ts";

/**
 * The two things that starting and stopping a VM need of control, over a connection of their own: is the guest there,
 * and power off.
 */
export class ControlCall {
  private readonly frames: AsyncIterator<WireMessage>;

  private constructor(
    private readonly connection: Awaited<ReturnType<typeof dial>>,
    private readonly target: Address,
  ) {
    this.frames = readFrames(connection.socket);
  }

  /** Connects and says hello. The whole exchange is bounded by `timeoutMs`; throws when the guest does not answer. */
  static async open(options: {
    target: Address;
    timeoutMs: number;
    signal?: AbortSignal;
  }): Promise<[ControlCall, HelloReply]> {
    const { target, timeoutMs } = options;
    const deadline = performance.now() + timeoutMs;
    const connection = await dial({ ...options, port: ports.control });
    const call = new ControlCall(connection, target);
    try {
      const reply = await call.ask({ t: "hello" }, Math.max(1, deadline - performance.now()), options.signal);
      return [call, helloReply.parse(reply)];
    } catch (error) {
      call.close();
      throw error;
    }
  }

  /** Asks for a power-off. Resolves when the guest has agreed or has closed the connection on its way down. */
  async powerOff(timeoutMs: number): Promise<void> {
    const reply = await this.ask({ t: "power", id: "1", action: "off" }, timeoutMs);
    if (reply.t === "err") throw new Error(`the guest refused to power off: ${String(reply.msg)}`);
  }

  close(): void {
    this.connection.socket.destroy();
  }

  private async ask(
    message: { t: string; [field: string]: unknown },
    timeoutMs: number,
    signal?: AbortSignal,
  ): Promise<WireMessage> {
    const where = `port ${ports.control} of ${formatTarget(this.target)}`;
    const { socket } = this.connection;
    const timer = setTimeout(() => {
      socket.destroy(new Error(`${where} accepted and did not answer "${message.t}" within ${timeoutMs / 1000} s`));
    }, timeoutMs);
    const onAbort = () => socket.destroy(new Error("the caller gave up"));
    signal?.addEventListener("abort", onAbort, { once: true });
    try {
      socket.write(encodeMessage(message));
      const next = await this.frames.next();
      if (next.done) throw new Error(`${where} closed the connection without answering "${message.t}"`);
      return next.value;
    } finally {
      clearTimeout(timer);
      signal?.removeEventListener("abort", onAbort);
    }
  }
}

async function* readFrames(source: AsyncIterable<Buffer>): AsyncGenerator<WireMessage, void, void> {
  let buffered: Buffer = Buffer.alloc(0);
  for await (const chunk of source) {
    buffered = Buffer.concat([buffered, chunk]);
    while (buffered.length >= frameHeaderBytes) {
      const length = buffered.readUInt32BE(0);
      if (length === 0 || length > maxFrameBytes) throw new Error(`a control frame of ${length} bytes`);
      const end = frameHeaderBytes + length;
      if (buffered.length < end) break;
      yield decodeMessage(buffered.subarray(frameHeaderBytes, end));
      buffered = buffered.subarray(end);
    }
  }
}
