/**
 * One direction of a connection: from a source socket through a carrier to a target socket, never more than the carrier
 * holds in between. Bytes keep their order; none is dropped unless the target has gone.
 */
import { Blocked, Failed } from "#sys/splice.ts";
import { endWriting } from "#sys/stream-socket.ts";
import type { Carrier } from "./carrier.ts";

/**
 * - `flowing`: the source may still have bytes
 * - `draining`: the source has ended; what was read is on its way
 * - `ended`: everything is delivered, and so is the end
 * - `broken`: the target is gone; nothing more is read
 */
export type DirectionState = "flowing" | "draining" | "ended" | "broken";

/**
 * What a direction waits for after {@link Direction.pump}: bytes of its source, room in its target, its next turn (it
 * has had its share), or nothing any more.
 */
export type Wait = "source" | "target" | "turn" | "nothing";

/** so much moves in one turn at most, for the sake of the other connections */
const roundsPerTurn = 16;
/** A smaller read is a message of its own, behind which there is most likely nothing: asking would cost a system call. */
const emptyingReadBytes = 4096;

export class Direction {
  state: DirectionState = "flowing";
  waitsFor: Wait = "source";
  /** whether any byte has come */
  used = false;
  readonly #carrier: Carrier;

  constructor(carrier: Carrier) {
    this.#carrier = carrier;
  }

  get over(): boolean {
    return this.state === "ended" || this.state === "broken";
  }

  /** Moves what can be moved without waiting, and sets {@link waitsFor} and {@link state}. */
  pump(source: number, target: number): void {
    for (let round = 0; round < roundsPerTurn; round += 1) {
      if (this.over) return;
      const read = this.#read(source);
      if (this.#carrier.held > 0 && !this.#write(target)) return;
      if (this.#carrier.held > 0) continue;
      if (this.state === "draining") {
        endWriting(target);
        this.#settle("ended");
        return;
      }
      if (read < emptyingReadBytes) {
        this.waitsFor = "source";
        this.#carrier.release();
        return;
      }
    }
    this.waitsFor = "turn";
  }

  /** The target reads no more: what is held is lost, and the source is left alone. */
  breakOff(): void {
    if (!this.over) this.#settle("broken");
  }

  /** Returns the count, or 0 when nothing more comes for now. */
  #read(source: number): number {
    if (this.state !== "flowing") return 0;
    const count = this.#carrier.fill(source);
    if (count > 0) {
      this.used = true;
      return count;
    }
    // A source that failed has ended too: what came before is delivered.
    if (count === 0 || count === Failed) this.state = "draining";
    return 0;
  }

  /** Returns false when the direction has to stop for now, or for good. */
  #write(target: number): boolean {
    const count = this.#carrier.drain(target);
    if (count > 0) return true;
    if (count === Blocked) this.waitsFor = "target";
    else this.#settle("broken");
    return false;
  }

  #settle(state: "ended" | "broken"): void {
    this.state = state;
    this.waitsFor = "nothing";
    this.#carrier.release();
  }
}
