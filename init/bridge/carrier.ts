/** What carries a direction's bytes from its source to its target. */
export interface Carrier {
  /** bytes on their way */
  readonly held: number;
  /** Takes bytes from the source; answers as `moveBytes` does, `Blocked` also when there is no room. */
  fill(source: number): number;
  /** Gives bytes to the target; answers as `moveBytes` does. */
  drain(target: number): number;
  /** Gives back what carrying took; what is still held is lost. */
  release(): void;
}
