/**
 * Forwards the sockets of a `unix:` target as some hypervisors forward vsock: when the guest's end goes away, the host's
 * connection stays open, and is closed only when the host next writes to it ("Guest reboot").
 */
import { mkdtempSync, rmSync } from "node:fs";
import { createConnection, createServer, type Server, type Socket } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { unixSocketName } from "#protocol/ports.ts";

export class StickyForwarder implements AsyncDisposable {
  readonly directory = mkdtempSync(join(tmpdir(), "vmapp-sticky-"));
  readonly #servers: Server[] = [];
  readonly #sockets = new Set<Socket>();

  /** `unix:DIR` */
  get target(): string {
    return `unix:${this.directory}`;
  }

  async forward(port: number, toDirectory: string): Promise<void> {
    const server = createServer((client) => {
      this.#sockets.add(client);
      let gone = false;
      const guest = createConnection(join(toDirectory, unixSocketName(port)));
      guest.on("data", (chunk) => client.write(chunk));
      guest.on("error", () => {});
      guest.on("close", () => {
        gone = true;
      });
      client.on("data", (chunk) => {
        if (gone) client.destroy();
        else guest.write(chunk);
      });
      client.on("error", () => {});
      client.on("close", () => guest.destroy());
    });
    this.#servers.push(server);
    await new Promise<void>((resolve) => server.listen(join(this.directory, unixSocketName(port)), resolve));
  }

  async [Symbol.asyncDispose](): Promise<void> {
    for (const socket of this.#sockets) socket.destroy();
    for (const server of this.#servers) await new Promise((resolve) => server.close(resolve));
    rmSync(this.directory, { recursive: true, force: true });
  }
}
