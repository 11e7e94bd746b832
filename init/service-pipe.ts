import { type Credentials, withFileCredentials } from "#sys/credentials.ts";
import { createPipe } from "#sys/fd.ts";
import { FdReader } from "#sys/stream-fd.ts";
import type { ServiceOutput } from "./service-output.ts";

const chunkBytes = 16 * 1024;

/**
 * What a service prints, over all its runs. A program that an earlier run left behind may hold its end for ever; with a
 * pipe a run, each of them would cost PID 1 a descriptor, until it had none left to start a service with.
 */
export class ServicePipe {
  /** what the service gets; it stays open here for the next run */
  readonly writeFd: number;
  readonly #reader: FdReader;
  #runEnded = false;

  /** `owner`: who may open it by its name, /dev/stdout. Throws a SysError when there is no pipe to be had. */
  constructor(owner: Credentials | undefined) {
    const { readFd, writeFd } = withFileCredentials(owner, createPipe);
    this.writeFd = writeFd;
    this.#reader = new FdReader(readFd);
  }

  /** The service's process has ended: what is in the pipe now is the last of it. */
  runEnded(): void {
    this.#runEnded = true;
    this.#reader.nudge();
  }

  /** What comes out. Bytes hold until the next piece is asked for. */
  async *output(): AsyncGenerator<ServiceOutput, void> {
    const buffer = new Uint8Array(chunkBytes);
    for (;;) {
      const count = this.#reader.tryRead(buffer, 0, buffer.length);
      if (count === 0) return;
      if (count > 0) yield buffer.subarray(0, count);
      else if (this.#runEnded) {
        this.#runEnded = false;
        yield "end of run";
      } else await this.#reader.readable();
    }
  }
}
