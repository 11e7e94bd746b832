import { createReadStream } from "node:fs";
import type { ControlConnection } from "./connection.ts";
import { ControlError } from "./error.ts";
import type { ProgramFile } from "./program-file.ts";

const baseMs = 30_000;
const msPerMib = 1_000;

/** how long a guest that has agreed may take to close the connection */
const restartMs = 15_000;

/**
 * Sends a program to a guest (companion §5.1) and resolves once the guest has taken it and has closed the connection to
 * restart. Throws {@link ControlError}: `update_failed`, `update_rejected` or `refused` when the guest keeps its old program and
 * the connection lives on.
 */
export async function pushUpdate(
  control: ControlConnection,
  program: ProgramFile,
  onProgress?: (bytesSent: number) => void,
): Promise<void> {
  const timeoutMs = baseMs + (program.size / (1024 * 1024)) * msPerMib;
  await control.request(
    { t: "update", size: program.size, sha256: program.hash },
    {
      timeoutMs,
      upload: { size: program.size, pieces: createReadStream(program.path, { highWaterMark: 512 * 1024 }), onProgress },
    },
  );
  let timer: NodeJS.Timeout | undefined;
  const late = new Promise<"late">((resolve) => {
    timer = setTimeout(() => resolve("late"), restartMs);
  });
  const end = await Promise.race([control.closed, late]);
  clearTimeout(timer);
  if (end === "late") {
    control.close();
    throw new ControlError("update_failed", "update: the guest agreed and did not restart");
  }
}
