/**
 * The real PID 1 with the real agent, as process 1 of a PID namespace on this machine. Its user namespace keeps it from
 * anything outside; the agent listens on Unix sockets, and the places where both write are memory of the namespace's own.
 */
import { existsSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Guest } from "#host/guest.ts";

const main = resolve(import.meta.dir, "../../init/main.ts");
const namespaces = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--mount"];
const script = 'mount -t tmpfs run /run && mount -t tmpfs lib /var/lib && exec "$@"';
/** /opt too, with an app in it */
const appScript = (manifest: object) =>
  `mount -t tmpfs opt /opt && mkdir /opt/app && printf %s '${JSON.stringify(manifest)}' >/opt/app/manifest.json && ${script}`;

export class Contained implements AsyncDisposable {
  private constructor(
    private readonly directory: string,
    private readonly child: Bun.Subprocess,
    readonly guest: Guest,
    /** directory of the agent's sockets */
    readonly sockets: string,
  ) {}

  /** `app`: the manifest of an app to run; without single quotes */
  static async start({ app }: { app?: object } = {}): Promise<Contained> {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-init-"));
    const sockets = join(directory, "sockets");
    const log = Bun.file(join(directory, "console.log"));
    const init = [process.execPath, main, "init", "--listen", `unix:${sockets}`];
    const child = Bun.spawn(
      ["unshare", ...namespaces, "sh", "-c", app === undefined ? script : appScript(app), "sh", ...init],
      {
        stdin: "ignore",
        stdout: log,
        stderr: log,
      },
    );
    const contained = new Contained(directory, child, Guest.connect(`unix:${sockets}`), sockets);
    const deadline = performance.now() + 15_000;
    while (!contained.console().includes("info ready")) {
      if (child.exitCode !== null || performance.now() > deadline) {
        const output = contained.console();
        await contained[Symbol.asyncDispose]();
        throw new Error(`the agent does not listen:\n${output}`);
      }
      await Bun.sleep(20);
    }
    return contained;
  }

  /** everything on the console so far */
  console(): string {
    const path = join(this.directory, "console.log");
    return existsSync(path) ? readFileSync(path, "utf8") : "";
  }

  async [Symbol.asyncDispose](): Promise<void> {
    this.child.kill("SIGKILL");
    await this.child.exited;
    rmSync(this.directory, { recursive: true, force: true });
  }
}
