/** The app core under the real PID 1, as process 1 of a PID namespace on this machine. */
import { describe, expect, test } from "bun:test";
import { resolve } from "node:path";
import { Contained } from "#test/init/contained.ts";
import { waitUntil } from "./bridge-forwarder.ts";

const core = resolve(import.meta.dir, "bridge-core.ts");
const powerOffStatus = 128 + 2;

const manifest = (more: Record<string, unknown> = {}) => ({
  argv: [process.execPath, core],
  env: { CORE_STAYS: "1" },
  data: "/opt/data",
  ...more,
});

describe("the app core under PID 1", () => {
  test("is started with its socket, data directory, environment and working directory, and reached by the host", async () => {
    await using machine = await Contained.start({
      app: manifest({
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
    });
    await machine.says("app: /run/vmapp/app.sock /opt/data more /opt 0\n");
    await using session = await machine.guest.app({ data: "/opt/data" });
    expect(await session.invoke("echo", "in there")).toEqual(["in there"]);
    expect((await machine.guest.exec(["stat", "-c", "%a", "/opt/data"])).stdout.toString()).toBe("700\n");
  }, 20_000);

  test("quits: the machine is powered off", async () => {
    await using machine = await Contained.start({ app: manifest() });
    const session = await machine.guest.app();
    const quit = new Promise<void>((resolveQuit) => session.once("quit", () => resolveQuit()));
    await session.invoke("quit");
    await quit;
    expect(await machine.exited).toBe(powerOffStatus);
    expect(machine.console()).toContain('going down action=power-off reason="the app has quit"');
  }, 20_000);

  test("fails: it is started again, the session finds it, and the machine stays up", async () => {
    await using machine = await Contained.start({ app: manifest() });
    await using session = await machine.guest.app();
    await expect(session.invoke("die")).rejects.toMatchObject({ code: "disconnected" });
    await waitUntil(() => session.state === "ready", "the app to be there again");
    expect(await session.invoke("echo", "again")).toEqual(["again"]);
    expect(machine.console()).toContain("service ended service=app");
  }, 20_000);

  test("that must never be restarted fails: it stays down, and the machine stays up", async () => {
    await using machine = await Contained.start({
      app: manifest({ argv: ["sh", "-c", "echo once; exit 3"], restart: "never" }),
    });
    await machine.says("service ended service=app");
    expect((await machine.guest.exec(["true"])).code).toBe(0);
    expect(machine.console().match(/app: once/g)).toHaveLength(1);
  }, 20_000);

  test("that must always run exits with 0: it is started again", async () => {
    await using machine = await Contained.start({
      app: manifest({ argv: ["sh", "-c", "echo once; sleep 0.2"], restart: "always" }),
    });
    await waitUntil(() => (machine.console().match(/app: once/g)?.length ?? 0) > 2, "three runs", 15_000);
    expect((await machine.guest.exec(["true"])).code).toBe(0);
  }, 20_000);

  test.each([
    ["that is not JSON", "{", "it is not JSON"],
    ["without a command", "{}", "argv"],
    ["with a policy that does not exist", manifest({ restart: "sometimes" }), "restart: expected never"],
    ["with an unknown user", manifest({ user: "nobody-at-all" }), "no such user: nobody-at-all"],
  ])(
    "a manifest %s is told by name, and the guest comes up without the app",
    async (_, bad, reason) => {
      await using machine = await Contained.start({ app: bad });
      await machine.says("cannot run the app");
      await machine.says(reason);
      expect((await machine.guest.exec(["true"])).code).toBe(0);
    },
    20_000,
  );
});
