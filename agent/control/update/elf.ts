/** The little of an ELF file that tells whether it can run here. */

export interface ElfFacts {
  /** `x64`, `arm64`, or `e_machine` in decimal */
  readonly machine: string;
  /** path of the dynamic loader; undefined for a static program */
  readonly interpreter: string | undefined;
}

/** Reads a part of the file; fewer bytes than asked for only at its end. */
export type ReadAt = (offset: number, length: number) => Promise<Buffer>;

const machines: Readonly<Record<number, string>> = { 62: "x64", 183: "arm64" };
const ptInterp = 3;
const headerBytes = 64;
const programHeaderBytes = 56;
const maxProgramHeaders = 128;
const maxInterpreterBytes = 4096;

/** Looks at a 64-bit little-endian executable; undefined when the file is none. */
export async function readElf(readAt: ReadAt): Promise<ElfFacts | undefined> {
  const header = await readAt(0, headerBytes);
  if (header.length < headerBytes || header.readUInt32BE(0) !== 0x7f454c46) return undefined;
  const type = header.readUInt16LE(16);
  if (header[4] !== 2 || header[5] !== 1 || (type !== 2 && type !== 3)) return undefined;
  const machine = header.readUInt16LE(18);
  const tableOffset = Number(header.readBigUInt64LE(32));
  const entryBytes = header.readUInt16LE(54);
  const count = header.readUInt16LE(56);
  if (entryBytes !== programHeaderBytes || count > maxProgramHeaders || !Number.isSafeInteger(tableOffset))
    return undefined;
  const table = await readAt(tableOffset, count * entryBytes);
  if (table.length < count * entryBytes) return undefined;
  const facts = { machine: machines[machine] ?? String(machine) };
  for (let at = 0; at < table.length; at += entryBytes) {
    if (table.readUInt32LE(at) !== ptInterp) continue;
    const offset = Number(table.readBigUInt64LE(at + 8));
    const length = Number(table.readBigUInt64LE(at + 32));
    if (length < 2 || length > maxInterpreterBytes || !Number.isSafeInteger(offset)) return undefined;
    const path = await readAt(offset, length);
    return path.length < length ? undefined : { ...facts, interpreter: path.toString("utf8", 0, length - 1) };
  }
  return { ...facts, interpreter: undefined };
}
