import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import {
  decide,
  type RestartPolicy,
  restartBudget,
  type ServiceAction,
  type ServiceState,
  slowRetryMs,
  stopped,
} from "#init/supervision.ts";

/** Drives one service by hand, with a clock of its own. */
class Life {
  now = 1_000_000;
  state: ServiceState = stopped;
  constructor(readonly policy: RestartPolicy = "always") {}

  start(): ServiceAction {
    return this.#step({ type: "start" });
  }
  /** Lets it run so long, then end. */
  end(ranMs: number, failed = true): ServiceAction {
    this.now += ranMs;
    return this.#step({ type: "ended", failed });
  }
  due(afterMs: number): ServiceAction {
    this.now += afterMs;
    return this.#step({ type: "due" });
  }
  stop(): ServiceAction {
    return this.#step({ type: "stop" });
  }
  #step(event: Parameters<typeof decide>[2]): ServiceAction {
    const { state, action } = decide(this.policy, this.state, event, this.now);
    this.state = state;
    return action;
  }
}

/** The pause that a service which ends after `ranMs` gets before it runs again. */
function pauseAfter(life: Life, ranMs: number): number {
  const action = life.end(ranMs);
  if (action.do === "spawn") return 0;
  if (action.do !== "wait") throw new Error(`${action.do} instead of a restart`);
  expect(life.due(action.delayMs)).toEqual({ do: "spawn" });
  return action.delayMs;
}

describe("supervision", () => {
  test("starts a service once", () => {
    const life = new Life();
    expect(life.start()).toEqual({ do: "spawn" });
    expect(life.start()).toEqual({ do: "nothing" });
  });

  test("starts it again at once, then after 100 ms, doubling up to 5 s", () => {
    const life = new Life();
    life.start();
    const pauses = Array.from({ length: 9 }, () => pauseAfter(life, 10));
    expect(pauses).toEqual([0, 100, 200, 400, 800, 1600, 3200, 5000, 5000]);
  });

  test("forgets the delay after a run of 10 s, and not before", () => {
    const life = new Life();
    life.start();
    for (let run = 0; run < 5; run++) pauseAfter(life, 10);
    expect(pauseAfter(life, 9_999)).toBe(1600);
    expect(pauseAfter(life, 10_000)).toBe(0);
    expect(pauseAfter(life, 10)).toBe(0);
    expect(pauseAfter(life, 10)).toBe(100);
  });

  test("goes on every 30 s once the budget is spent, says so once, and never gives up", () => {
    const life = new Life();
    life.start();
    for (let run = 0; run < restartBudget; run++) expect(pauseAfter(life, 10)).toBeLessThanOrEqual(5_000);
    expect(life.end(10)).toEqual({ do: "wait", delayMs: slowRetryMs, budgetSpent: true });
    for (let run = 0; run < 4; run++) {
      expect(life.due(slowRetryMs)).toEqual({ do: "spawn" });
      expect(life.end(10)).toEqual({ do: "wait", delayMs: slowRetryMs, budgetSpent: false });
    }
  });

  test("returns to quick restarts when the window has emptied", () => {
    const life = new Life();
    life.start();
    for (let run = 0; run < restartBudget; run++) pauseAfter(life, 10);
    life.end(10);
    life.due(slowRetryMs);
    expect(pauseAfter(life, 5 * 60_000)).toBe(0);
  });

  test("leaves a service alone that may not be restarted", () => {
    const never = new Life("never");
    never.start();
    expect(never.end(10)).toEqual({ do: "nothing" });
    const onFailure = new Life("on-failure");
    onFailure.start();
    expect(onFailure.end(10, true)).toEqual({ do: "spawn" });
    expect(onFailure.end(10, false)).toEqual({ do: "nothing" });
    expect(onFailure.state).toEqual(stopped);
  });

  test("starts nothing after a stop, whether the service ran or waited", () => {
    const ran = new Life();
    ran.start();
    ran.stop();
    expect(ran.end(10)).toEqual({ do: "nothing" });
    const waited = new Life();
    waited.start();
    waited.end(10);
    expect(waited.end(10).do).toBe("wait");
    waited.stop();
    expect(waited.due(100)).toEqual({ do: "nothing" });
  });

  test("never waits longer than 30 s nor restarts more than the budget plus the slow retries in any 5 minutes", () => {
    fc.assert(
      fc.property(fc.array(fc.integer({ min: 0, max: 20_000 }), { minLength: 50, maxLength: 200 }), (runs) => {
        const life = new Life();
        life.start();
        const restarts: number[] = [];
        for (const ranMs of runs) {
          expect(pauseAfter(life, ranMs)).toBeLessThanOrEqual(slowRetryMs);
          restarts.push(life.now);
          const recent = restarts.filter((time) => life.now - time < 5 * 60_000);
          expect(recent.length).toBeLessThanOrEqual(restartBudget + 10);
        }
      }),
    );
  });
});
