/** Programs to send as updates: one that is good, and the smallest executables there are that are not. */
import { createHash } from "node:crypto";
import { mkdtempSync, readFileSync, rmSync, statSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join, resolve } from "node:path";
import { ControlConnection } from "#host/clients/control/connection.ts";
import type { ProgramFile } from "#host/clients/control/program-file.ts";
import { pushUpdate } from "#host/clients/control/update.ts";
import type { Guest } from "#host/guest.ts";
import { ports } from "#protocol/ports.ts";

const root = resolve(import.meta.dir, "../..");
const loadAddress = 0x400000n;
const headerBytes = 64 + 56;

/** Machine code that does nothing else, for each processor. */
const code = {
  exits: {
    x64: "b83c000000bf030000000f05", // exit(3)
    arm64: "600080d2a80b80d2010000d4",
  },
  crashes: { x64: "0f0b", arm64: "00000000" },
  hangs: {
    x64: "b8220000000f05ebf7", // for (;;) pause()
    arm64: "00000014",
  },
} as const;

export type BadProgram = keyof typeof code;

/** A static ELF executable of some 130 bytes. `salt` makes it another file. */
export function tinyProgram(kind: BadProgram, salt = 0): Buffer {
  const machine = process.arch === "arm64" ? "arm64" : "x64";
  const text = Buffer.from(code[kind][machine], "hex");
  const file = Buffer.alloc(headerBytes + text.length + 4);
  file.set([0x7f, 0x45, 0x4c, 0x46, 2, 1, 1]);
  file.writeUInt16LE(2, 16);
  file.writeUInt16LE(machine === "arm64" ? 183 : 62, 18);
  file.writeUInt32LE(1, 20);
  file.writeBigUInt64LE(loadAddress + BigInt(headerBytes), 24);
  file.writeBigUInt64LE(64n, 32);
  file.writeUInt16LE(64, 52);
  file.writeUInt16LE(56, 54);
  file.writeUInt16LE(1, 56);
  file.writeUInt32LE(1, 64);
  file.writeUInt32LE(5, 68);
  file.writeBigUInt64LE(loadAddress, 80);
  file.writeBigUInt64LE(loadAddress, 88);
  file.writeBigUInt64LE(BigInt(file.length), 96);
  file.writeBigUInt64LE(BigInt(file.length), 104);
  file.writeBigUInt64LE(0x1000n, 112);
  file.set(text, headerBytes);
  file.writeUInt32LE(salt, headerBytes + text.length);
  return file;
}

/** Files for programs, removed at the end. */
export class ProgramFiles implements Disposable {
  readonly directory = mkdtempSync(join(tmpdir(), "vmapp-programs-"));

  save(name: string, bytes: Buffer): ProgramFile {
    const path = join(this.directory, name);
    writeFileSync(path, bytes, { mode: 0o755 });
    return this.at(path);
  }

  at(path: string): ProgramFile {
    const hash = createHash("sha256").update(readFileSync(path)).digest("hex");
    return { path, size: statSync(path).size, hash };
  }

  /** This checkout's vmapp-init with a build id of its own; on top of `interpreter` when it is to run in a guest. */
  async compileInit(build: string, interpreter?: string): Promise<ProgramFile> {
    const path = join(this.directory, `vmapp-init-${build}`);
    const entries = ["init/main.ts", "init/filesystem-worker.ts", "sys/poller-worker.ts"];
    const options = ["--compile", `--outfile=${path}`, "--define", `VMAPP_BUILD_ID=${JSON.stringify(build)}`];
    if (interpreter !== undefined) options.push(`--compile-executable-path=${interpreter}`);
    const child = Bun.spawn([process.execPath, "build", ...options, ...entries], {
      cwd: root,
      stdout: "ignore",
      stderr: "pipe",
    });
    const errors = await new Response(child.stderr).text();
    if ((await child.exited) !== 0) throw new Error(`vmapp-init was not compiled: ${errors}`);
    return this.at(path);
  }

  [Symbol.dispose](): void {
    rmSync(this.directory, { recursive: true, force: true });
  }
}

/** Offers a guest a program and sends it, over a connection of its own. */
export async function push(guest: Guest, program: ProgramFile): Promise<void> {
  const control = await ControlConnection.open(await guest.dial(ports.control), { binHash: program.hash });
  try {
    await pushUpdate(control, program);
  } finally {
    control.close();
  }
}
