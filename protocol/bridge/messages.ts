/**
 * The messages of the app bridge. The host end speaks {@link HostMessage}, the core end {@link CoreMessage}; `t` is the
 * type. A type that a reader does not know is logged and ignored, which is how the protocol grows.
 */

/** What went wrong with one call. */
export interface ErrorBody {
  readonly message: string;
  /** for programs, e.g. `denied`, `unknown_op` */
  readonly code?: string;
}

/** The result of a call, or why there is none. */
export type Outcome = { readonly result: unknown } | { readonly error: ErrorBody };

/** Which app this is. */
export interface AppIdentity {
  /** e.g. `dev.vmapp.notes` */
  readonly id: string;
  readonly name: string;
  readonly version: string;
}

export interface Platform {
  /** e.g. `linux` */
  readonly os: string;
  /** e.g. `arm64`, `x64` */
  readonly arch: string;
}

/** First message of the host on a connection; the core answers `ready` within 30 s. */
export interface InitMessage {
  readonly t: "init";
  readonly app: AppIdentity;
  readonly platform: Platform;
  /** path of each shared folder in the guest; null where the user has not given one */
  readonly folders: Readonly<Record<string, string | null>>;
  /** directory that is the app's own */
  readonly data: string;
}

/** Answer to a `request`. */
export type ReplyMessage = { readonly t: "reply"; readonly id: number } & Outcome;

/** The UI calls a handler of the core; answered by one `result`. */
export interface InvokeMessage {
  readonly t: "invoke";
  /** unique for the host */
  readonly id: number;
  readonly win: number;
  readonly channel: string;
  readonly args: readonly unknown[];
}

/** The UI tells the core something; no answer. */
export interface SendMessage {
  readonly t: "send";
  readonly win: number;
  readonly channel: string;
  readonly args: readonly unknown[];
}

/** Something happened to a window: `closed`, `focus`, `blur`, `resize`, … */
export interface WindowMessage {
  readonly t: "window";
  readonly win: number;
  readonly event: string;
  readonly data: unknown;
}

/** The VM stops about 3 s later. */
export interface BeforeQuitMessage {
  readonly t: "before-quit";
}

export interface ReadyMessage {
  readonly t: "ready";
}

/** The core asks the platform for something; answered by one `reply`. */
export interface RequestMessage {
  readonly t: "request";
  /** unique for the core */
  readonly id: number;
  readonly op: string;
  readonly params: unknown;
}

/** Answer to an `invoke`. */
export type ResultMessage = { readonly t: "result"; readonly id: number } & Outcome;

/** The core pushes to the UI; no answer. */
export interface EmitMessage {
  readonly t: "emit";
  /** null: every window */
  readonly win: number | null;
  readonly channel: string;
  readonly args: readonly unknown[];
}

export type HostMessage = InitMessage | ReplyMessage | InvokeMessage | SendMessage | WindowMessage | BeforeQuitMessage;

export type CoreMessage = ReadyMessage | RequestMessage | ResultMessage | EmitMessage;

export type BridgeMessage = HostMessage | CoreMessage;
