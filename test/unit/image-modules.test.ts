import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { loadOrder, parseModuleIndex } from "#image/modules.ts";

const modulesDep = [
  "kernel/drivers/virtio/virtio.ko: kernel/drivers/virtio/virtio_ring.ko",
  "kernel/drivers/virtio/virtio_ring.ko:",
  "kernel/drivers/net/virtio_net.ko: kernel/drivers/net/net_failover.ko kernel/net/failover.ko kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko",
  "kernel/drivers/net/net_failover.ko: kernel/net/failover.ko",
  "kernel/net/failover.ko:",
  "kernel/drivers/char/hw_random/virtio-rng.ko.xz: kernel/drivers/virtio/virtio.ko kernel/drivers/virtio/virtio_ring.ko",
  "",
].join("\n");
const index = parseModuleIndex(modulesDep, "kernel/fs/ext4/ext4.ko\nkernel/net/packet/af_packet.ko\n");

describe("the load order of kernel modules", () => {
  test("puts what a module needs before it, each once", () => {
    expect(loadOrder(index, ["virtio_net", "virtio"])).toEqual([
      "kernel/drivers/virtio/virtio_ring.ko",
      "kernel/drivers/virtio/virtio.ko",
      "kernel/net/failover.ko",
      "kernel/drivers/net/net_failover.ko",
      "kernel/drivers/net/virtio_net.ko",
    ]);
  });

  test("leaves out what the kernel has built in", () => {
    expect(loadOrder(index, ["ext4", "af_packet", "virtio_ring"])).toEqual(["kernel/drivers/virtio/virtio_ring.ko"]);
  });

  test("takes hyphens for underscores and compressed files for plain ones", () => {
    const path = "kernel/drivers/char/hw_random/virtio-rng.ko.xz";
    expect(loadOrder(index, ["virtio_rng"]).at(-1)).toBe(path);
    expect(loadOrder(index, ["virtio-rng"]).at(-1)).toBe(path);
  });

  test("names a module that the kernel does not have", () => {
    expect(() => loadOrder(index, ["virtio", "nosuch"])).toThrow('the kernel has no module "nosuch"');
  });

  test("names the module that needs an absent one", () => {
    const broken = parseModuleIndex("kernel/a.ko: kernel/b.ko\n", "");
    expect(() => loadOrder(broken, ["a"])).toThrow('the kernel has no module "b", which a needs');
  });

  test("has every module after all it needs, for any selection", () => {
    const names = [...index.files.keys()];
    fc.assert(
      fc.property(fc.shuffledSubarray(names), (selection) => {
        const order = loadOrder(index, selection);
        expect(new Set(order).size).toBe(order.length);
        for (const { path, needs } of index.files.values())
          for (const needed of needs)
            if (order.includes(path)) expect(order.indexOf(needed)).toBeWithin(0, order.indexOf(path));
      }),
    );
  });
});
