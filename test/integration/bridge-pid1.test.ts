/**
 * The app core under the real PID 1, as process 1 of a PID namespace on this machine: `/opt` and `/run` are memory of
 * the namespace's own, and everything listens on Unix sockets.
 */
import { afterEach, describe, expect, test } from "bun:test";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { Guest } from "#host/guest.ts";
import { waitUntil } from "./bridge-forwarder.ts";

const main = resolve(import.meta.dir, "../../init/main.ts");
const core = resolve(import.meta.dir, "bridge-core.ts");
const namespaces = ["--user", "--map-root-user", "--pid", "--fork", "--kill-child", "--mount-proc", "--uts", "--mount"];
const places = ["run", "opt", "var/lib"].map((path) => `mount -t tmpfs memory /${path}`).join(" && ");
const powerOffStatus = 128 + 2;

const cleanups: (() => Promise<void>)[] = [];
afterEach(async () => {
  for (const cleanup of cleanups.splice(0)) await cleanup();
});

interface Contained {
  readonly guest: Guest;
  readonly exited: Promise<number>;
  console(): string;
  says(text: string): Promise<void>;
}

async function startContained(manifest: unknown): Promise<Contained> {
  const directory = mkdtempSync(join(tmpdir(), "vmapp-pid1-"));
  const log = join(directory, "console.log");
  const app = join(directory, "app");
  mkdirSync(app);
  writeFileSync(join(app, "manifest.json"), typeof manifest === "string" ? manifest : JSON.stringify(manifest));
  const sockets = join(directory, "sockets");
  const child = Bun.spawn(
    ["unshare", ...namespaces, "sh", "-c", `${places} && cp -r ${app} /opt/app && exec "$@"`, "sh"].concat([
      process.execPath,
      main,
      "init",
      "--listen",
      `unix:${sockets}`,
    ]),
    { stdin: "ignore", stdout: Bun.file(log), stderr: Bun.file(log) },
  );
  cleanups.push(async () => {
    child.kill("SIGKILL");
    await child.exited;
    rmSync(directory, { recursive: true, force: true });
  });
  const console = () => (existsSync(log) ? readFileSync(log, "utf8") : "");
  const says = (text: string) =>
    waitUntil(() => console().includes(text), `${JSON.stringify(text)} in:\n${console()}`, 15_000);
  await says("info ready");
  await says("vmapp-bridge:");
  return { guest: Guest.connect(`unix:${sockets}`), exited: child.exited, console, says };
}

const manifest = (more: Record<string, unknown> = {}) => ({
  argv: [process.execPath, core],
  env: { CORE_STAYS: "1" },
  data: "/opt/data",
  ...more,
});

describe("the app core under PID 1", () => {
  test("is started with its socket, data directory, environment and working directory, and reached by the host", async () => {
    const { guest, says } = await startContained(
      manifest({
        argv: [
          "sh",
          "-c",
          'echo "$VMAPP_SOCKET $VMAPP_DATA $EXTRA $(pwd) $(id -u)"; exec "$0" "$1"',
          process.execPath,
          core,
        ],
        env: { CORE_STAYS: "1", EXTRA: "more" },
        cwd: "/opt",
      }),
    );
    await says("app: /run/vmapp/app.sock /opt/data more /opt 0\n");
    await using session = await guest.app({ data: "/opt/data" });
    expect(await session.invoke("echo", "in there")).toEqual(["in there"]);
    expect((await guest.exec(["stat", "-c", "%a", "/opt/data"])).stdout.toString()).toBe("700\n");
  }, 20_000);

  test("quits: the machine is powered off", async () => {
    const { guest, exited, console } = await startContained(manifest());
    const session = await guest.app();
    const quit = new Promise<void>((resolveQuit) => session.once("quit", () => resolveQuit()));
    await session.invoke("quit");
    await quit;
    expect(await exited).toBe(powerOffStatus);
    expect(console()).toContain('going down action=power-off reason="the app has quit"');
  }, 20_000);

  test("fails: it is started again, the session finds it, and the machine stays up", async () => {
    const { guest, console } = await startContained(manifest());
    await using session = await guest.app();
    await expect(session.invoke("die")).rejects.toMatchObject({ code: "disconnected" });
    await waitUntil(() => session.state === "ready", "the app to be there again");
    expect(await session.invoke("echo", "again")).toEqual(["again"]);
    expect(console()).toContain("service ended service=app");
  }, 20_000);

  test("that must never be restarted fails: it stays down, and the machine stays up", async () => {
    const { guest, says, console } = await startContained(
      manifest({ argv: ["sh", "-c", "echo once; exit 3"], restart: "never" }),
    );
    await says("service ended service=app");
    expect((await guest.exec(["true"])).code).toBe(0);
    expect(console().match(/app: once/g)).toHaveLength(1);
  }, 20_000);

  test("that must always run exits with 0: it is started again", async () => {
    const { guest, console } = await startContained(
      manifest({ argv: ["sh", "-c", "echo once; sleep 0.2"], restart: "always" }),
    );
    await waitUntil(() => (console().match(/app: once/g)?.length ?? 0) > 2, "three runs", 15_000);
    expect((await guest.exec(["true"])).code).toBe(0);
  }, 20_000);

  test.each([
    ["that is not JSON", "{", "it is not JSON"],
    ["without a command", "{}", "argv"],
    ["with a policy that does not exist", manifest({ restart: "sometimes" }), "restart: expected never"],
    ["with an unknown user", manifest({ user: "nobody-at-all" }), "no such user: nobody-at-all"],
  ])(
    "a manifest %s is told by name, and the guest comes up without the app",
    async (_, bad, reason) => {
      const { guest, says } = await startContained(bad);
      await says("cannot run the app");
      await says(reason);
      expect((await guest.exec(["true"])).code).toBe(0);
    },
    20_000,
  );
});
