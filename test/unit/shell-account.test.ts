import { afterAll, beforeAll, describe, expect, test } from "bun:test";
import { mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { findAccount } from "#agent/shell/account.ts";

let etc: string;

beforeAll(() => {
  etc = mkdtempSync(join(tmpdir(), "vmapp-etc-"));
  const passwd = [
    "root:x:0:0:root:/root:/bin/bash",
    "# a comment, and an empty line",
    "",
    "alice:x:1000:1000:Alice,,,:/home/alice:/bin/zsh",
    "bare:x:1001:50::/:",
    "1234:x:77:78:a name of digits:/seven:/bin/sh",
    "broken",
  ];
  const group = [
    "root:x:0:",
    "alice:x:1000:",
    "audio:x:29:alice,bare",
    "video:x:44:bob,alice",
    "broken",
    "odd:x:y:alice",
  ];
  writeFileSync(join(etc, "passwd"), `${passwd.join("\n")}\n`);
  writeFileSync(join(etc, "group"), `${group.join("\n")}\n`);
});

afterAll(() => rmSync(etc, { recursive: true, force: true }));

describe("the user of a session", () => {
  test("by name: uid, gid, home, shell, and every group that lists the name", () => {
    expect(findAccount("alice", etc)).toEqual({
      name: "alice",
      uid: 1000,
      gid: 1000,
      groups: [1000, 29, 44],
      home: "/home/alice",
      shell: "/bin/zsh",
    });
  });

  test("by uid is the account of that uid", () => {
    expect(findAccount("1000", etc)).toEqual(findAccount("alice", etc));
    expect(findAccount("0", etc)).toMatchObject({ name: "root", home: "/root", shell: "/bin/bash" });
  });

  test("by uid:gid has that group instead of the account's own", () => {
    expect(findAccount("1000:50", etc)).toMatchObject({ name: "alice", uid: 1000, gid: 50, groups: [50, 29, 44] });
  });

  test("by a uid that no account has: its number as name and group, / as home, /bin/sh as shell", () => {
    expect(findAccount("4242", etc)).toEqual({
      name: "4242",
      uid: 4242,
      gid: 4242,
      groups: [4242],
      home: "/",
      shell: "/bin/sh",
    });
  });

  test("digits are a uid, also where an account has them as its name", () => {
    expect(findAccount("1234", etc).uid).toBe(1234);
  });

  test("an empty home or shell has a default", () => {
    expect(findAccount("bare", etc)).toMatchObject({ home: "/", shell: "/bin/sh", groups: [50, 29] });
  });

  test.each(["bob", "", "ALICE", "alice ", "1000:", ":1000", "-1", "1000:alice", "0x0", "99999999999"])(
    "%j is no user and is named",
    (user) => {
      expect(() => findAccount(user, etc)).toThrow(`no such user: ${user}`);
    },
  );

  test("a uid that means nobody to the kernel is refused", () => {
    expect(() => findAccount("4294967295", etc)).toThrow("4294967295");
    expect(() => findAccount("1:4294967295", etc)).toThrow("4294967295");
    expect(findAccount("4294967294", etc).uid).toBe(4294967294);
  });

  test("a guest without /etc/passwd knows numbers alone", () => {
    expect(findAccount("0", join(etc, "nowhere"))).toMatchObject({ uid: 0, gid: 0, home: "/" });
    expect(() => findAccount("root", join(etc, "nowhere"))).toThrow("no such user: root");
  });
});
