import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { closeFd } from "#sys/fd.ts";
import { acceptConnection, listenUnix, UnixDialler } from "#sys/stream-socket.ts";
import { closeScenarios, type Ends, sleep } from "./bridge-close-orders.ts";
import { type Forwarder, startForwarder, waitUntil } from "./bridge-forwarder.ts";

describe.each([
  ["spliced both ways", false],
  ["copied to the host, as over vsock", true],
])("bytes %s", (_, copies) => {
  let forwarder: Forwarder;
  let listener: number;
  let idleDescriptors: number;
  beforeAll(async () => {
    forwarder = await startForwarder({ copies });
    listener = listenUnix({ path: forwarder.appPath, backlog: 16 });
    idleDescriptors = forwarder.descriptors();
  });
  afterAll(async () => {
    closeFd(listener);
    await forwarder.stop();
  });

  const ends: Ends = {
    connectHost: () => {
      const fd = new UnixDialler(forwarder.hostPath).connect();
      if (fd === undefined) throw new Error("the forwarder does not listen");
      return fd;
    },
    acceptApp: async () => {
      for (;;) {
        const fd = acceptConnection(listener);
        if (fd !== undefined) return fd;
        await sleep(2);
      }
    },
  };

  test.each(closeScenarios.map((scenario) => [scenario.name, scenario] as const))("%s", async (_name, scenario) => {
    await scenario.run(ends);
    // What stays open are the pipes that the forwarder keeps for the next connection.
    const keptPipes = 16;
    await waitUntil(
      () => forwarder.descriptors() <= idleDescriptors + keptPipes,
      "both sockets of the connection to be closed",
    );
  });

  test("after all of them the forwarder holds no socket and serves the next connection", async () => {
    const before = forwarder.descriptors();
    for (const scenario of closeScenarios.slice(0, 2)) await scenario.run(ends);
    await waitUntil(() => forwarder.descriptors() <= before, "the sockets to be closed");
    expect(forwarder.log()).not.toContain("connection failed");
  });
});
