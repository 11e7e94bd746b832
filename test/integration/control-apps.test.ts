/** The app that PID 1 supervises, in the protocol's terms, with the real PID 1. */
import { expect, test } from "bun:test";
import { ControlConnection } from "#host/clients/control/connection.ts";
import { ping, stats } from "#host/clients/control/core.ts";
import { withConnection } from "#host/clients/control/one-shot.ts";
import { ports } from "#protocol/ports.ts";
import { Contained } from "../init/contained.ts";

const app = { argv: ["/bin/sleep", "600"], data: "/run/app-data" };
const options = { timeoutMs: 10_000 };

test("an app is listed, ended, started again, and killed when it does not end by itself", async () => {
  await using machine = await Contained.start({ app });
  const control = await ControlConnection.open(await machine.guest.dial(ports.control));
  expect(control.hasCap("apps")).toBe(true);
  const list = async (filter: string) =>
    (await control.request({ t: "app_list", filter }, options)).apps as Record<string, unknown>[];
  const [entry] = await list("all");
  expect(entry).toMatchObject({
    bundle_id: "app",
    name: "sleep",
    type: "user",
    state: "running",
    path: "/bin/sleep",
    data_container: "/run/app-data",
  });
  expect(await list("system")).toEqual([]);
  expect((await stats(control)).services?.map(({ name }) => name)).toEqual(["agent", "bridge", "app"]);

  expect(await control.request({ t: "app_terminate", bundle_id: "app" }, options)).toMatchObject({
    t: "app_terminate",
    ok: true,
  });
  expect(await list("running")).toEqual([]);
  expect((await list("user"))[0]).toMatchObject({ state: "not_running", pid: 0 });
  expect(await control.request({ t: "app_terminate", bundle_id: "app" }, options)).toMatchObject({ ok: true });

  const launched = await control.request({ t: "app_launch", bundle_id: "app" }, options);
  expect(launched).toMatchObject({ t: "app_launch", ok: true });
  expect(launched.pid).not.toBe(entry?.pid);
  expect((await list("running"))[0]).toMatchObject({ pid: launched.pid });

  await machine.guest.exec(["kill", "-STOP", String(launched.pid)]);
  expect(await control.request({ t: "app_terminate", bundle_id: "app" }, options)).toMatchObject({ ok: true });
  await expect(control.request({ t: "app_launch", bundle_id: "other" }, options)).rejects.toMatchObject({
    code: "not_found",
  });
  await expect(control.request({ t: "app_launch", bundle_id: "app", url: "x:y" }, options)).rejects.toMatchObject({
    code: "unavailable",
  });
  await ping(control);
  control.close();
}, 60_000);

test("a service that was killed is told with its restarts", async () => {
  await using machine = await Contained.start();
  await machine.guest.exec(["sh", "-c", "kill -9 $PPID"]).catch(() => {});
  const deadline = performance.now() + 10_000;
  for (;;) {
    // The agent that is being killed may still take a connection, and drop it.
    const restarts = await withConnection({ target: machine.guest.target }, async (control) => {
      const { services = [] } = await stats(control);
      return services.find(({ name }) => name === "agent")?.restarts;
    }).catch(() => undefined);
    if (restarts === 1) return;
    if (performance.now() > deadline) throw new Error("the restart is not told");
    await Bun.sleep(50);
  }
}, 30_000);
