/** Answers the core's requests: each exactly once, in whatever order they finish. */
import { EncodeError } from "#protocol/bridge/encode.ts";
import { errorBodyOf } from "#protocol/bridge/error-body.ts";
import type { ErrorBody, Outcome, RequestMessage } from "#protocol/bridge/messages.ts";
import { OpError } from "./error.ts";
import { carryOut, isOpName, type OpContext, type OpName, type Ops } from "./ops.ts";

/** A core that asks for more at once has gone wrong; each is refused, and the rest goes on. */
const maxAtOnce = 256;

export class Requests {
  readonly #ops: Ops;
  readonly #allowed: ReadonlySet<OpName>;
  readonly #newContext: (clipboard: string) => OpContext;
  #context: OpContext;
  #running = new Set<number>();

  constructor({
    ops,
    allowed,
    newContext,
  }: {
    ops: Ops;
    allowed: Iterable<OpName>;
    /** makes the context of one connection's requests */
    newContext: (clipboard: string) => OpContext;
  }) {
    this.#ops = ops;
    this.#allowed = new Set(allowed);
    this.#newContext = newContext;
    this.#context = newContext("");
  }

  /** Whether the permissions refuse this operation. */
  denies(op: string): boolean {
    return isOpName(op) && !this.#allowed.has(op);
  }

  /** A new connection: what still runs answers to the former one, and the core's ids start over. */
  startOver(): void {
    this.#running = new Set();
    this.#context = this.#newContext(this.#context.clipboard);
  }

  /** Carries a request out; undefined for one whose id is still being worked on, which gets no answer of its own. */
  async answer(message: RequestMessage): Promise<Outcome | undefined> {
    const { id } = message;
    const running = this.#running;
    if (running.has(id)) return undefined;
    if (running.size >= maxAtOnce)
      return { error: { message: `${maxAtOnce} requests are being worked on already`, code: "busy" } };
    running.add(id);
    try {
      return { result: await this.#carryOut(message) };
    } catch (error) {
      return { error: errorBody(error) };
    } finally {
      running.delete(id);
    }
  }

  #carryOut({ op, params }: RequestMessage): Promise<unknown> {
    if (!isOpName(op)) throw new OpError("unknown_op", `there is no operation ${JSON.stringify(op.slice(0, 100))}`);
    if (!this.#allowed.has(op)) throw new OpError("denied", `this app may not use ${op}`);
    return carryOut(this.#ops, op, params, this.#context);
  }
}

function errorBody(error: unknown): ErrorBody {
  if (error instanceof OpError || error instanceof EncodeError) return { message: error.message, code: error.code };
  // An embedder's own failure: what it was is not the guest's business beyond its message.
  return { message: errorBodyOf(error).message, code: "failed" };
}
