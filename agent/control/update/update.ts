import type { ErrorCode } from "#protocol/control/error-code.ts";
import type { RequestOf } from "#protocol/control/requests.ts";
import type { Log } from "#sys/log.ts";
import type { OwnHash } from "../own-hash.ts";
import type { Reply, RequestBody } from "../reply.ts";
import { RequestError, systemFailure } from "../request-error.ts";
import { type ProgramStore, UpdateError } from "./program-store.ts";

/** v1's text, which hosts match; the cause is in `reason`, an extension */
const failedText = "update failed";

export interface UpdaterOptions {
  readonly store: ProgramStore;
  readonly ownHash: OwnHash;
  /** build id of PID 1 */
  readonly base: string;
  /** tells PID 1 that a program is on offer */
  readonly announce: () => void;
  readonly log: Log;
}

/** Takes new programs for the agent (companion §5, §11.7). What becomes of them is PID 1's to decide. */
export class Updater {
  readonly #options: UpdaterOptions;
  #busy = false;
  #confirmed = false;

  constructor(options: UpdaterOptions) {
    this.#options = options;
    void options.store.sweep();
  }

  /** `binHash`: what the hello of this connection offered. */
  async update(request: RequestOf<"update">, binHash: string | undefined, body: RequestBody): Promise<Reply> {
    if (this.#busy) throw new RequestError("unavailable", failedText, { reason: "another update is under way" });
    this.#busy = true;
    try {
      return await this.#receive(request, binHash, body);
    } finally {
      this.#busy = false;
    }
  }

  /** The agent has answered a hello: if it is a new program on trial, that proves it. */
  async greeted(): Promise<void> {
    if (this.#confirmed) return;
    this.#confirmed = true;
    const { store, ownHash, log } = this.#options;
    try {
      await ownHash.start();
      if (ownHash.value !== undefined && (await store.confirm(ownHash.value)))
        log.info("update confirmed", { sha256: ownHash.value });
    } catch (error) {
      this.#confirmed = false;
      log.error("update could not be confirmed", { error: error instanceof Error ? error.message : String(error) });
    }
  }

  async #receive(
    { size, sha256 }: RequestOf<"update">,
    binHash: string | undefined,
    body: RequestBody,
  ): Promise<Reply> {
    const { store, ownHash, base, announce, log } = this.#options;
    const fail = (code: ErrorCode, reason: string): never => {
      log.warn("update refused", { reason });
      throw new RequestError(code, failedText, { reason });
    };
    const expected = sha256 ?? binHash;
    if (size === 0) return fail("update_failed", "it is empty");
    if (expected === undefined || !/^[0-9a-f]{64}$/.test(expected))
      return fail("update_failed", "no hash was announced");
    if (sha256 !== undefined && binHash !== undefined && sha256 !== binHash)
      return fail("hash_mismatch", "the hello announced another hash");
    if (await store.isRejected(expected))
      return fail("update_rejected", "this program was tried before and did not work");
    if (ownHash.value === expected) return fail("update_failed", "this very program is running");
    try {
      await store.receive(body, { sha256: expected, size, base });
    } catch (error) {
      if (error instanceof UpdateError) return fail("update_failed", error.message);
      const failure = systemFailure("receiving it", error);
      return fail(failure.code === "io" ? "update_failed" : failure.code, failure.message);
    }
    log.info("update received", { sha256: expected, bytes: size });
    return { fields: { t: "ok", msg: "updated, restarting" }, after: announce, last: true };
  }
}
