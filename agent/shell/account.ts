/** Who a session runs as: `user` is a name, a uid, or `uid:gid`, read from the guest's own /etc/passwd and /etc/group. */
import { readFileSync } from "node:fs";

export interface Account {
  readonly name: string;
  readonly uid: number;
  readonly gid: number;
  readonly groups: readonly number[];
  readonly home: string;
  readonly shell: string;
}

/** Resolves a user. Throws an Error that names it when the guest does not know it. */
export function findAccount(user: string, etc = "/etc"): Account {
  const numeric = /^(\d{1,10})(?::(\d{1,10}))?$/.exec(user);
  const rows = readTable(`${etc}/passwd`);
  const row = rows.find((fields) => (numeric === null ? fields[0] === user : Number(fields[2]) === Number(numeric[1])));
  if (row === undefined && numeric === null) throw new Error(`no such user: ${user}`);
  const uid = Number(row?.[2] ?? numeric?.[1]);
  const gid = Number(numeric?.[2] ?? row?.[3] ?? uid);
  if (uid > 0xfffffffe || gid > 0xfffffffe) throw new Error(`user ${user} is out of range`);
  const name = row?.[0] ?? String(uid);
  const memberships = readTable(`${etc}/group`)
    .filter((fields) => fields[3]?.split(",").includes(name))
    .map((fields) => Number(fields[2]));
  return {
    name,
    uid,
    gid,
    groups: [...new Set([gid, ...memberships])].filter(Number.isSafeInteger),
    home: row?.[5] || "/",
    shell: row?.[6] || "/bin/sh",
  };
}

function readTable(path: string): string[][] {
  let text: string;
  try {
    text = readFileSync(path, "utf8");
  } catch {
    return [];
  }
  return text
    .split("\n")
    .filter((line) => line !== "" && !line.startsWith("#"))
    .map((line) => line.split(":"));
}
