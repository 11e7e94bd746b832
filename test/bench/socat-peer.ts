/** socat as a peer: a Unix socket that runs a command for each connection. */
import { existsSync, mkdtempSync, rmSync } from "node:fs";
import { createConnection } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class SocatPeer {
  readonly #directory = mkdtempSync(join(tmpdir(), "vmapp-socat-"));
  readonly #path = join(this.#directory, "socket");
  readonly #child: Bun.Subprocess;

  /** @param command an EXEC address's words, e.g. `dd bs=128k,pty` */
  constructor(command: string, options: readonly string[] = []) {
    this.#child = Bun.spawn(["socat", ...options, `UNIX-LISTEN:${this.#path},fork,backlog=128`, `EXEC:${command}`], {
      stdio: ["ignore", "ignore", "ignore"],
    });
  }

  async ready(): Promise<this> {
    for (const deadline = performance.now() + 5_000; !existsSync(this.#path); ) {
      if (performance.now() > deadline) throw new Error("socat did not listen within 5 s");
      await Bun.sleep(5);
    }
    return this;
  }

  /** Connects, sends `input` and the end of it, and reads to the end. Returns how much came back. */
  exchange(input?: { readonly block: Uint8Array; readonly count: number }): Promise<number> {
    return new Promise((resolve, reject) => {
      const socket = createConnection({ path: this.#path, allowHalfOpen: true });
      let bytes = 0;
      socket.on("data", (chunk) => {
        bytes += chunk.length;
      });
      socket.on("error", reject);
      socket.on("end", () => {
        socket.destroy();
        resolve(bytes);
      });
      if (input === undefined) return;
      let left = input.count;
      const send = () => {
        while (left > 0) {
          left -= 1;
          if (!socket.write(input.block)) {
            socket.once("drain", send);
            return;
          }
        }
        socket.end();
      };
      send();
    });
  }

  async stop(): Promise<void> {
    this.#child.kill();
    await this.#child.exited;
    rmSync(this.#directory, { recursive: true, force: true });
  }
}
