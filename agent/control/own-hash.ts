import { createHash } from "node:crypto";
import { open, readFile, readlink, stat } from "node:fs/promises";

/** bytes hashed between two turns of the event loop; a few milliseconds even under software emulation */
const sliceBytes = 256 * 1024;

/** beside an executable whose hash was recorded when it was built or installed */
export const hashFileSuffix = ".sha256";

/**
 * SHA-256 of the running program, for the hello. The executable has 100 MB, which takes seconds under software emulation: so a
 * record of it is taken where there is one, or it is read once, in slices; a hello waits no longer than it says.
 */
export class OwnHash {
  readonly #path: string;
  #value: string | undefined;
  #work: Promise<void> | undefined;

  /** `path`: the file whose hash stands for this program; `/proc/self/exe` is what runs, even after it was replaced */
  constructor(path = "/proc/self/exe") {
    this.#path = path;
  }

  /** lower-case hex, or undefined while it is not known or when the file cannot be read */
  get value(): string | undefined {
    return this.#value;
  }

  /** Begins to hash unless that was done before. */
  start(): Promise<void> {
    this.#work ??= findHash(this.#path).then(
      (value) => {
        this.#value = value;
      },
      () => {
        // Unreadable: the hello then offers no hash and asks for no update (companion §4.4).
      },
    );
    return this.#work;
  }

  /** The hash, waited for no longer than `milliseconds`. */
  async within(milliseconds: number): Promise<string | undefined> {
    let timer: NodeJS.Timeout | undefined;
    const bound = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, milliseconds);
    });
    await Promise.race([this.start(), bound]);
    clearTimeout(timer);
    return this.#value;
  }
}

async function findHash(path: string): Promise<string> {
  return (await recordedHash(path).catch(() => undefined)) ?? hashFile(path);
}

/** What stands beside the executable, if only root can have put both there and they came together. */
async function recordedHash(path: string): Promise<string | undefined> {
  const executable = await readlink(path);
  const recordPath = `${executable}${hashFileSuffix}`;
  const [program, record, running] = await Promise.all([stat(executable), stat(recordPath), stat(path)]);
  const sealed = [program, record].every(({ uid, mode }) => uid === 0 && (mode & 0o022) === 0);
  if (!sealed || record.dev !== program.dev || running.ino !== program.ino || running.dev !== program.dev)
    return undefined;
  return /^([0-9a-f]{64})\n?$/.exec(await readFile(recordPath, "utf8"))?.[1];
}

async function hashFile(path: string): Promise<string> {
  const file = await open(path, "r");
  try {
    const hash = createHash("sha256");
    const buffer = Buffer.allocUnsafe(sliceBytes);
    for (;;) {
      const { bytesRead } = await file.read(buffer, 0, sliceBytes, null);
      if (bytesRead === 0) return hash.digest("hex");
      hash.update(buffer.subarray(0, bytesRead));
    }
  } finally {
    await file.close();
  }
}
