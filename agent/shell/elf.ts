/** Whether the kernel would take an ELF file, as far as its headers tell: a pty cannot report a failed exec any more. */
import { readSync } from "node:fs";
import { interpreterRefusal } from "./interpreter.ts";

const headerBytes = 64;
const ELFCLASS64 = 2;
const ELFDATA2LSB = 1;
const ET_EXEC = 2;
const ET_DYN = 3;
const PT_INTERP = 3;
const programHeaderBytes = 56;
const maxProgramHeaders = 128;
const maxInterpreterBytes = 4096;

/** `e_machine` of this machine's own programs */
const ownMachine: Readonly<Record<string, number>> = { x64: 62, arm64: 183 };

/** Why the file cannot be executed, or undefined. 32-bit files are the kernel's to judge. */
export function elfRefusal(fd: number): string | undefined {
  const header = readAt(fd, 0, headerBytes);
  if (header.length < 52) return "exec format error";
  if (header[4] !== ELFCLASS64) return undefined;
  const type = header.readUInt16LE(16);
  if (header.length < headerBytes || header[5] !== ELFDATA2LSB || (type !== ET_EXEC && type !== ET_DYN))
    return "exec format error";
  if (header.readUInt16LE(18) !== ownMachine[process.arch]) return "exec format error: built for another processor";
  const count = Math.min(header.readUInt16LE(56), maxProgramHeaders);
  const table = readAt(fd, Number(header.readBigUInt64LE(32)), count * programHeaderBytes);
  for (let offset = 0; offset + programHeaderBytes <= table.length; offset += programHeaderBytes) {
    if (table.readUInt32LE(offset) !== PT_INTERP) continue;
    const bytes = Number(table.readBigUInt64LE(offset + 32));
    if (bytes < 2 || bytes > maxInterpreterBytes) return "exec format error";
    const path =
      readAt(fd, Number(table.readBigUInt64LE(offset + 8)), bytes)
        .toString("latin1")
        .split("\0", 1)[0] ?? "";
    return interpreterRefusal(path);
  }
  return undefined;
}

function readAt(fd: number, position: number, bytes: number): Buffer {
  if (bytes === 0 || !Number.isSafeInteger(position)) return Buffer.alloc(0);
  const buffer = Buffer.alloc(bytes);
  return buffer.subarray(0, readSync(fd, buffer, 0, bytes, position));
}
