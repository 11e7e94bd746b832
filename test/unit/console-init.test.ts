import { describe, expect, test } from "bun:test";
import type { InitParams } from "#protocol/console/calls.ts";
import { ConsoleError } from "#protocol/console/errors.ts";
import { checkInit } from "#protocol/console/init-rules.ts";
import { formatMount, parseMount, urlBody } from "#protocol/console/mount.ts";
import { parsePort } from "#protocol/console/port.ts";

describe("a mount", () => {
  test("survives its spelling, in which rw is left out", () => {
    for (const text of [
      "file:///srv/project:/work:ro",
      "file:///srv/out:/work/out",
      "https://example.com:8080/share:/work/in:ro",
      "file:///srv/odd:name:/work",
      "s3://bucket/p:/work",
    ]) {
      expect(formatMount(parseMount(text))).toBe(text);
    }
    expect(formatMount(parseMount("file:///a:/b:rw"))).toBe("file:///a:/b");
  });

  test("says where the tree is and where it goes", () => {
    expect(parseMount("https://example.com:8080/share:/work/in:ro")).toEqual({
      url: "https://example.com:8080/share",
      scheme: "https",
      guestPath: "/work/in",
      readOnly: true,
    });
    expect(parseMount("file:///srv/a:/b:/work").url).toBe("file:///srv/a:/b");
    expect(urlBody(parseMount("file:///srv/a%20b:/work"))).toBe("/srv/a%20b");
  });

  test("takes the leftmost of several options", () => {
    expect(parseMount("file:///a:/b:ro:rw").readOnly).toBe(true);
    expect(parseMount("file:///a:/b:rw:ro").readOnly).toBe(false);
  });

  const wrong: readonly [string, string][] = [
    ["/srv:/work", "a mount URL needs a scheme"],
    ["file:///srv/project", "a mount needs a guest path to appear at"],
    ["file:///srv:work", "a mount trails an absolute guest path with `ro` or `rw`"],
    ["file:///srv:/work:rx", "a mount trails an absolute guest path with `ro` or `rw`"],
    ["file://:/work", "a mount URL needs something after its scheme"],
  ];
  for (const [text, rule] of wrong) {
    test(`that breaks the rule "${rule}" is refused with the rule and the whole string: ${text}`, () => {
      expect(() => parseMount(text)).toThrow(`${rule}: ${JSON.stringify(text)}`);
    });
  }
});

test("a port is spelled host first, both numbers always", () => {
  expect(parsePort("8080:80")).toEqual({ host: 8080, guest: 80 });
  for (const text of ["", "80", "80:", ":80", "0:80", "8080:0", "http", "70000:1", "1:2:3", "-1:80", "1.5:2", " 1:2"]) {
    expect(() => parsePort(text)).toThrow(JSON.stringify(text));
  }
});

describe("an init is malformed, whatever a server can give, when", () => {
  const params: InitParams = { network: true, ports: [], mounts: [] };
  const mounts = (...texts: string[]) => ({ mounts: texts.map(parseMount) });
  const cases: readonly [string, Partial<InitParams>][] = [
    ["two mounts ask for one path", mounts("file:///a:/w", "file:///b:/w")],
    ["two mounts ask for one path spelled differently", mounts("file:///a:/w", "file:///b://w/")],
    ["a mount covers the root", mounts("file:///a:/")],
    ["a mount's path climbs", mounts("file:///a:/w/../etc")],
    ["a mount's path has a dot", mounts("file:///a:/w/.")],
    ["a mount covers /proc", mounts("file:///a:/proc")],
    ["a mount lies under /sys", mounts("file:///a:/sys/x")],
    ["a mount lies under /dev", mounts("file:///a:/dev/shm")],
    ["a file URL is relative", mounts("file://srv/x:/w")],
    ["there is a port and no network", { network: false, ports: [parsePort("1:2")] }],
    ["one host port is asked for twice", { ports: [parsePort("1:2"), parsePort("1:3")] }],
    ["vcpus is 0", { vcpus: 0 }],
    ["memory_mib is 0", { memoryMib: 0 }],
    ["gpu_memory_mib is 0", { gpu: true, gpuMemoryMib: 0 }],
    ["disk_gib is 0", { diskGib: 0 }],
    ["there is GPU memory and no GPU", { gpu: false, gpuMemoryMib: 1 }],
  ];
  for (const [name, part] of cases) {
    test(name, () => {
      let caught: unknown;
      try {
        checkInit({ ...params, ...part });
      } catch (error) {
        caught = error;
      }
      expect(caught).toBeInstanceOf(ConsoleError);
      expect((caught as ConsoleError).code).toBe(-32602);
    });
  }

  test("and not when one tree lies inside another, or under a directory whose name starts like /proc", () => {
    expect(() =>
      checkInit({ ...params, ...mounts("file:///a:/w", "file:///b:/w/out", "file:///c:/process") }),
    ).not.toThrow();
  });
});
