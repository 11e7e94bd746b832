/**
 * When a service is started again: the decisions only, as a state machine without clock or process. All times are
 * milliseconds of one monotonic clock.
 */
export type RestartPolicy = "never" | "on-failure" | "always";

/** after this long a run counts as good, and the delay starts over */
const goodRunMs = 10_000;
const firstDelayMs = 100;
const longestDelayMs = 5_000;
/** so many restarts within the window, and no more than one each `slowRetryMs` until the window has emptied */
export const restartBudget = 30;
const budgetWindowMs = 5 * 60_000;
export const slowRetryMs = 30_000;

/** What is remembered of earlier runs. */
interface History {
  /** runs in a row that ended before they counted as good */
  readonly shortRuns: number;
  /** when the restarts inside the window happened */
  readonly restarts: readonly number[];
  /** whether the last end found the budget spent */
  readonly overBudget: boolean;
}

export type ServiceState =
  | { readonly phase: "stopped" }
  | { readonly phase: "running"; readonly since: number; readonly history: History }
  | { readonly phase: "waiting"; readonly history: History };

export type ServiceEvent =
  | { readonly type: "start" }
  /** the process has ended, or could not be started; `failed` unless it exited with 0 */
  | { readonly type: "ended"; readonly failed: boolean }
  /** the time of a `wait` has passed */
  | { readonly type: "due" }
  | { readonly type: "stop" };

export type ServiceAction =
  | { readonly do: "nothing" }
  | { readonly do: "spawn" }
  | {
      readonly do: "wait";
      readonly delayMs: number /** set once, when the budget has just been spent */;
      readonly budgetSpent: boolean;
    };

export interface Decision {
  readonly state: ServiceState;
  readonly action: ServiceAction;
}

export const stopped: ServiceState = { phase: "stopped" };
const noHistory: History = { shortRuns: 0, restarts: [], overBudget: false };
const nothing: ServiceAction = { do: "nothing" };
const spawn: ServiceAction = { do: "spawn" };

export function decide(policy: RestartPolicy, state: ServiceState, event: ServiceEvent, now: number): Decision {
  switch (event.type) {
    case "stop":
      return { state: stopped, action: nothing };
    case "start":
      if (state.phase !== "stopped") return { state, action: nothing };
      return { state: { phase: "running", since: now, history: noHistory }, action: spawn };
    case "due":
      if (state.phase !== "waiting") return { state, action: nothing };
      return restart(state.history, now);
    case "ended":
      if (state.phase !== "running") return { state, action: nothing };
      return afterEnd(policy, state, event.failed, now);
  }
}

function afterEnd(
  policy: RestartPolicy,
  state: ServiceState & { phase: "running" },
  failed: boolean,
  now: number,
): Decision {
  if (policy === "never" || (policy === "on-failure" && !failed)) return { state: stopped, action: nothing };
  const ranWell = now - state.since >= goodRunMs;
  const restarts = state.history.restarts.filter((time) => now - time < budgetWindowMs);
  const overBudget = restarts.length >= restartBudget;
  const history: History = { shortRuns: ranWell ? 0 : state.history.shortRuns + 1, restarts, overBudget };
  if (overBudget) {
    const budgetSpent = !state.history.overBudget;
    return { state: { phase: "waiting", history }, action: { do: "wait", delayMs: slowRetryMs, budgetSpent } };
  }
  const delayMs = delayAfter(history.shortRuns);
  if (delayMs === 0) return restart(history, now);
  return { state: { phase: "waiting", history }, action: { do: "wait", delayMs, budgetSpent: false } };
}

/** None after a good run or the first short one; then 100 ms, doubling. */
function delayAfter(shortRuns: number): number {
  if (shortRuns <= 1) return 0;
  return Math.min(firstDelayMs * 2 ** (shortRuns - 2), longestDelayMs);
}

function restart(history: History, now: number): Decision {
  const restarts = [...history.restarts, now];
  return { state: { phase: "running", since: now, history: { ...history, restarts } }, action: spawn };
}
