/**
 * When a lasting control connection is made, updated, used and made again: the decisions only, without socket, clock or file
 * (companion §11.3). Every attempt has a token; what a past attempt still reports changes nothing.
 */
import type { HelloReply } from "#protocol/control/replies.ts";

export type ClientState =
  | { readonly name: "idle" }
  | { readonly name: "connecting"; readonly token: number }
  | { readonly name: "handshaking"; readonly token: number }
  /** the guest asked for our program and gets it */
  | { readonly name: "updating"; readonly token: number; readonly hello: HelloReply }
  /** commands may be sent; `notice` says why an update was not made, when one was asked for */
  | { readonly name: "ready"; readonly token: number; readonly hello: HelloReply; readonly notice?: string }
  | { readonly name: "waiting"; readonly reason: string; readonly delayMs: number; readonly attempts: number }
  | { readonly name: "stopped" };

/** What is remembered between attempts. */
export interface ClientMemory {
  readonly lastToken: number;
  /** attempts in a row that did not become ready */
  readonly failures: number;
  /** updates in a row after which the guest still wanted one */
  readonly pushes: number;
}

export type ClientEvent =
  | { readonly name: "start" }
  | { readonly name: "connected"; readonly token: number }
  /** `program`: bytes of the program that could be installed, when there is one */
  | {
      readonly name: "greeted";
      readonly token: number;
      readonly hello: HelloReply;
      readonly program: number | undefined;
    }
  /** the guest took the program and restarts */
  | { readonly name: "updated"; readonly token: number }
  /** the guest refused the program and is still there */
  | { readonly name: "update refused"; readonly token: number; readonly reason: string }
  | { readonly name: "lost"; readonly token: number; readonly reason: string }
  | { readonly name: "due" }
  | { readonly name: "stop" };

export const initialMemory: ClientMemory = { lastToken: 0, failures: 0, pushes: 0 };

/** after so many updates without effect the guest is taken as it is */
const maxPushes = 2;

const firstDelayMs = 3_000;
const longestDelayMs = 15_000;
/** attempts at the first delay, before it grows */
const steadyAttempts = 5;

/** what a daemon accepts that names no limit */
export interface UpdateLimits {
  readonly stockBytes: number;
}

export interface Step {
  readonly state: ClientState;
  readonly memory: ClientMemory;
}

/** Deals with one event. A `connecting` state that is new means: dial with its token; `waiting`: report `due` after the delay. */
export function step(state: ClientState, memory: ClientMemory, event: ClientEvent, limits: UpdateLimits): Step {
  const unchanged = { state, memory };
  if (event.name === "stop") return { state: { name: "stopped" }, memory };
  if (event.name === "start") return state.name === "idle" ? connect(memory) : unchanged;
  if (event.name === "due") return state.name === "waiting" ? connect(memory) : unchanged;
  if (!("token" in state) || state.token !== event.token) return unchanged;
  const { token } = state;
  switch (event.name) {
    case "connected":
      return state.name === "connecting" ? { state: { name: "handshaking", token }, memory } : unchanged;
    case "greeted":
      return state.name === "handshaking" ? greeted(token, memory, event, limits) : unchanged;
    case "updated":
      return state.name === "updating" ? wait(memory, "the guest restarts with its new program") : unchanged;
    case "update refused":
      return state.name === "updating" ? ready(token, memory, state.hello, event.reason) : unchanged;
    case "lost":
      return wait(state.name === "ready" ? { ...memory, failures: 0 } : memory, event.reason);
  }
}

function connect(memory: ClientMemory): Step {
  const token = memory.lastToken + 1;
  return { state: { name: "connecting", token }, memory: { ...memory, lastToken: token } };
}

function greeted(
  token: number,
  memory: ClientMemory,
  { hello, program }: ClientEvent & { name: "greeted" },
  { stockBytes }: UpdateLimits,
): Step {
  if (hello.need_update !== true || program === undefined) return ready(token, { ...memory, pushes: 0 }, hello);
  const limit = hello.max_update ?? stockBytes;
  if (program > limit) {
    return ready(token, memory, hello, `the program has ${program} bytes, the guest takes updates up to ${limit}`);
  }
  if (memory.pushes >= maxPushes)
    return ready(token, memory, hello, `update did not take after ${memory.pushes} attempts`);
  return { state: { name: "updating", token, hello }, memory: { ...memory, pushes: memory.pushes + 1 } };
}

function ready(token: number, memory: ClientMemory, hello: HelloReply, notice?: string): Step {
  const state: ClientState = { name: "ready", token, hello, ...(notice === undefined ? {} : { notice }) };
  return { state, memory: { ...memory, failures: 0 } };
}

function wait(memory: ClientMemory, reason: string): Step {
  const failures = memory.failures + 1;
  const delayMs = Math.min(longestDelayMs, firstDelayMs * 1.5 ** Math.max(0, failures - steadyAttempts));
  return { state: { name: "waiting", reason, delayMs, attempts: failures }, memory: { ...memory, failures } };
}
