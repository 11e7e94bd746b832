/**
 * The real PID 1 with its services, as process 1 of a PID namespace on this machine. Its user namespace keeps it from
 * anything outside; the services listen on Unix sockets, and the places where they write are memory of the namespace's own.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Guest } from "#host/guest.ts";

const main = resolve(import.meta.dir, "../../init/main.ts");
const namespaces = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--mount"];
const script = 'mount -t tmpfs run /run && mount -t tmpfs lib /var/lib && exec "$@"';
/** /opt too, with an app in it */
const appScript = `mount -t tmpfs opt /opt && mkdir /opt/app && cp "$0" /opt/app/manifest.json && ${script}`;
const limitMs = 15_000;

export class Contained implements AsyncDisposable {
  private constructor(
    private readonly directory: string,
    private readonly child: Bun.Subprocess,
    readonly guest: Guest,
    /** directory of the services' sockets */
    readonly sockets: string,
  ) {}

  /**
   * Resolves when the services listen.
   * @param options.app the manifest of an app to run, as an object or as the text of its file
   * @param options.wrapper a command that becomes PID 1, which is given as its further arguments
   */
  static async start({
    app,
    wrapper = [],
  }: {
    app?: object | string;
    wrapper?: readonly string[];
  } = {}): Promise<Contained> {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-init-"));
    const sockets = join(directory, "sockets");
    const manifest = join(directory, "manifest.json");
    if (app !== undefined) writeFileSync(manifest, typeof app === "string" ? app : JSON.stringify(app));
    const log = Bun.file(join(directory, "console.log"));
    const init = [process.execPath, main, "init", "--listen", `unix:${sockets}`];
    const child = Bun.spawn(
      ["unshare", ...namespaces, "sh", "-c", app === undefined ? script : appScript, manifest, ...wrapper, ...init],
      { stdin: "ignore", stdout: log, stderr: log },
    );
    const contained = new Contained(directory, child, Guest.connect(`unix:${sockets}`), sockets);
    try {
      await contained.says("info ready");
      await contained.says("vmapp-bridge: ");
    } catch (error) {
      await contained[Symbol.asyncDispose]();
      throw error;
    }
    return contained;
  }

  /** how `unshare` ends: 128 + 2 after power-off and halt, 128 + 1 after a reboot, as the kernel tells it */
  get exited(): Promise<number> {
    return this.child.exited;
  }

  /** everything on the console so far */
  console(): string {
    const path = join(this.directory, "console.log");
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  }

  /** Waits until this stands on the console. */
  async says(text: string): Promise<void> {
    const deadline = performance.now() + limitMs;
    for (;;) {
      // Looked at before the console, on which it may have written until its end.
      const over = this.child.exitCode !== null || this.child.signalCode !== null || performance.now() > deadline;
      const output = this.console();
      if (output.includes(text)) return;
      if (over) throw new Error(`${JSON.stringify(text)} is not on the console:\n${output}`);
      await Bun.sleep(20);
    }
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill("SIGKILL");
    await this.child.exited;
    rmSync(this.directory, { recursive: true, force: true });
  }
}
