import { beforeEach, describe, expect, test } from "bun:test";
import { BusyPolling, crowdedPauseMs, maxWindowMs } from "#init/bridge/busy-polling.ts";

/** Time that passes only in a wait or while others run, and events that come at set times. */
class Scene {
  now = 0;
  /** milliseconds that others keep the processor when it is offered to them */
  othersKeep = 0.001;
  /** when the next event comes */
  eventAt = Number.POSITIVE_INFINITY;
  looks = 0;
  sleeps = 0;
  readonly polling = new BusyPolling({
    events: { wait: (timeoutMs) => this.#wait(timeoutMs) },
    now: () => this.now,
    yieldToOthers: () => {
      this.now += this.othersKeep;
    },
  });

  #wait(timeoutMs: number): number {
    if (timeoutMs === 0) {
      this.looks += 1;
      return this.now >= this.eventAt ? 1 : 0;
    }
    this.sleeps += 1;
    const until = timeoutMs < 0 ? this.eventAt : Math.min(this.eventAt, this.now + timeoutMs);
    this.now = Math.max(this.now, until);
    return this.now >= this.eventAt ? 1 : 0;
  }

  /** Waits for an event that comes after `delayMs`. Returns whether it was met awake. */
  meets(delayMs: number): boolean {
    this.eventAt = this.now + delayMs;
    const slept = this.sleeps;
    expect(this.polling.wait(-1)).toBe(1);
    expect(this.now).toBeGreaterThanOrEqual(this.eventAt);
    return this.sleeps === slept;
  }
}

let scene: Scene;
beforeEach(() => {
  scene = new Scene();
});

describe("waiting for events", () => {
  test("events that come soon after one another are met awake", () => {
    expect(scene.meets(0.04)).toBe(false);
    expect(scene.meets(0.04)).toBe(true);
    expect(scene.meets(0.04)).toBe(true);
  });

  test("the window grows until it is as long as the pauses between events", () => {
    expect(Array.from({ length: 5 }, () => scene.meets(0.15))).toEqual([false, false, false, true, true]);
  });

  test("events that come rarely are waited for asleep, without a look before", () => {
    for (let index = 0; index < 5; index += 1) expect(scene.meets(10)).toBe(false);
    expect(scene.looks).toBe(0);
  });

  test("of a pause after much traffic no more than the window is spent awake", () => {
    for (let index = 0; index < 10; index += 1) scene.meets(0.15);
    scene.eventAt = Number.POSITIVE_INFINITY;
    const [startedAt, sleeps] = [scene.now, scene.sleeps];
    expect(scene.polling.wait(50)).toBe(0);
    expect(scene.sleeps).toBe(sleeps + 1);
    expect(scene.now - startedAt).toBeLessThan(50 + maxWindowMs * 1.1);
    const looks = scene.looks;
    expect(scene.meets(10)).toBe(false);
    expect(scene.looks).toBe(looks);
  });

  test("while another program keeps the processor, it is not offered again and again", () => {
    for (let index = 0; index < 10; index += 1) scene.meets(0.04);
    scene.othersKeep = 3;
    scene.eventAt = scene.now + 3.1;
    expect(scene.polling.wait(-1)).toBe(1);
    const looks = scene.looks;
    for (const crowdedUntil = scene.now + crowdedPauseMs - 1; scene.now < crowdedUntil; ) {
      expect(scene.meets(0.04)).toBe(false);
    }
    expect(scene.looks).toBe(looks);
    scene.now += 1;
    scene.othersKeep = 0.001;
    scene.meets(0.04);
    expect(scene.meets(0.04)).toBe(true);
  });

  test("a wait of no time is one look", () => {
    expect(scene.polling.wait(0)).toBe(0);
    expect([scene.looks, scene.sleeps]).toEqual([1, 0]);
  });
});
