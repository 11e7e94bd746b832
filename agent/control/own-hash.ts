import { createHash } from "node:crypto";
import { open } from "node:fs/promises";

/** bytes hashed between two turns of the event loop; a few milliseconds even under software emulation */
const sliceBytes = 256 * 1024;

/**
 * SHA-256 of the running program, for the hello. The executable has 100 MB, which takes seconds under software emulation, so it
 * is read once, in slices, and never inside a handshake: a hello waits for it at most as long as it says.
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
    this.#work ??= hashFile(this.#path).then(
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
