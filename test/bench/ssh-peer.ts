/**
 * OpenSSH as a peer: an sshd of its own on the loopback interface, with its own keys and configuration, for an account of
 * its own whose shell is /bin/sh, and one connection that is kept. All of it is gone afterwards.
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { createServer } from "node:net";
import { tmpdir } from "node:os";
import { join } from "node:path";

export class SshPeer {
  readonly #directory: string;
  readonly #user: string;
  readonly #port: number;
  #daemon: Bun.Subprocess | undefined;

  private constructor(directory: string, user: string, port: number) {
    this.#directory = directory;
    this.#user = user;
    this.#port = port;
  }

  /** Why there can be no such peer here, or undefined. */
  static get lacking(): string | undefined {
    if (process.getuid?.() !== 0) return "ssh was left out: its account and daemon need root";
    const programs = ["/usr/sbin/sshd", "ssh", "ssh-keygen", "useradd", "userdel", "usermod"];
    const missing = programs.filter((program) => Bun.which(program, { PATH: searchPath }) === null);
    return missing.length === 0 ? undefined : `ssh was left out: there is no ${missing.join(", ")}`;
  }

  static async start(): Promise<SshPeer> {
    const directory = mkdtempSync(join(tmpdir(), "vmapp-ssh-"));
    const peer = new SshPeer(directory, `vmbench${process.pid}`, await freePort());
    for (const signal of interruptions) process.on(signal, peer.#interrupted);
    try {
      await peer.#start();
      return peer;
    } catch (error) {
      await peer.stop();
      throw error;
    }
  }

  async #start(): Promise<void> {
    const home = join(this.#directory, "home");
    mkdirSync(home, { mode: 0o755 });
    await run(["chmod", "755", this.#directory]);
    await run(["useradd", "--no-create-home", "--home-dir", home, "--shell", "/bin/sh", this.#user]);
    // No password at all, which is not the same as a locked account: sshd turns those away.
    await run(["usermod", "--password", "*", this.#user]);
    for (const key of ["host", "client"])
      await run(["ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-f", join(this.#directory, key)]);
    await run(["cp", join(this.#directory, "client.pub"), join(this.#directory, "authorized")]);
    const config = join(this.#directory, "sshd_config");
    writeFileSync(
      config,
      [
        "ListenAddress 127.0.0.1",
        `Port ${this.#port}`,
        `HostKey ${join(this.#directory, "host")}`,
        `AuthorizedKeysFile ${join(this.#directory, "authorized")}`,
        `PidFile ${join(this.#directory, "pid")}`,
        "StrictModes no",
        "Subsystem sftp internal-sftp",
        "UsePAM yes",
        "PasswordAuthentication no",
        "KbdInteractiveAuthentication no",
        `AllowUsers ${this.#user}`,
        "",
      ].join("\n"),
    );
    mkdirSync("/run/sshd", { recursive: true });
    this.#daemon = Bun.spawn(["/usr/sbin/sshd", "-D", "-f", config], { stdio: ["ignore", "ignore", "ignore"] });
    for (let attempt = 0; ; attempt += 1) {
      const { exitCode } = Bun.spawnSync([...this.command("true")], { stdio: ["ignore", "ignore", "ignore"] });
      if (exitCode === 0) return;
      if (attempt > 50) throw new Error("no connection to the bench's own sshd");
      await Bun.sleep(100);
    }
  }

  /** The words of an ssh client that runs a command over the kept connection, which the first one opens. */
  command(remote: string): string[] {
    const options = {
      ControlMaster: "auto",
      ControlPath: join(this.#directory, "control"),
      ControlPersist: "yes",
      IdentityFile: join(this.#directory, "client"),
      IdentitiesOnly: "yes",
      StrictHostKeyChecking: "no",
      UserKnownHostsFile: "/dev/null",
      LogLevel: "ERROR",
      BatchMode: "yes",
    };
    const flags = Object.entries(options).flatMap(([key, value]) => ["-o", `${key}=${value}`]);
    return ["ssh", "-F", "none", ...flags, "-p", String(this.#port), `${this.#user}@127.0.0.1`, remote];
  }

  /** The words of an scp over the same connection; a path in the account is written `:/path`. */
  copyCommand(from: string, to: string): string[] {
    const [, ...words] = this.command("true");
    const flags = words.slice(0, -4);
    const place = (path: string) => (path.startsWith(":") ? `${this.#user}@127.0.0.1${path}` : path);
    return ["scp", "-q", "-r", ...flags, "-P", String(this.#port), place(from), place(to)];
  }

  /** No account stays behind a bench that is broken off. */
  readonly #interrupted = (): never => {
    this.#endConnection();
    this.#daemon?.kill();
    Bun.spawnSync(["userdel", "--force", this.#user], { stdio: ["ignore", "ignore", "ignore"], env });
    rmSync(this.#directory, { recursive: true, force: true });
    process.exit(130);
  };

  /** Ends the kept connection, whose processes would outlive both ends and keep the account in use. */
  #endConnection(): void {
    const [client = "ssh", ...words] = this.command("true");
    Bun.spawnSync([client, "-O", "exit", ...words.slice(0, -1)], { stdio: ["ignore", "ignore", "ignore"] });
  }

  async stop(): Promise<void> {
    for (const signal of interruptions) process.off(signal, this.#interrupted);
    this.#endConnection();
    this.#daemon?.kill();
    await this.#daemon?.exited;
    // The daemon's child for the connection may take a moment to end, and until then the account is in use.
    for (let attempt = 0; attempt < 30; attempt += 1) {
      if (Bun.spawnSync(["userdel", this.#user], { stdio: ["ignore", "ignore", "ignore"], env }).exitCode !== 8) break;
      await Bun.sleep(100);
    }
    rmSync(this.#directory, { recursive: true, force: true });
  }
}

const interruptions = ["SIGINT", "SIGTERM", "SIGHUP"] as const;
const searchPath = `${process.env.PATH}:/usr/sbin:/sbin`;
const env = { ...process.env, PATH: searchPath };

async function run(words: [string, ...string[]]): Promise<void> {
  const child = Bun.spawn(words, { stdin: "ignore", stdout: "ignore", stderr: "pipe", env });
  const text = await new Response(child.stderr).text();
  if ((await child.exited) !== 0) throw new Error(`${words.join(" ")}: ${text}`);
}

function freePort(): Promise<number> {
  return new Promise((resolve) => {
    const server = createServer().listen(0, "127.0.0.1", () => {
      const address = server.address();
      server.close(() => resolve(typeof address === "object" && address !== null ? address.port : 0));
    });
  });
}
