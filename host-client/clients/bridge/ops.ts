/**
 * The operations that a core may request, with the shape of their params and what the host end does about each unless
 * the embedder does something else. Nothing here touches the user's desktop by itself, save `shell.openExternal`.
 */
import { spawn } from "node:child_process";
import { z } from "zod";
import { OpError } from "./error.ts";

const pixels = z.int().min(1).max(32_767);
const title = z.string().max(1024);
const longText = z.string().max(64 * 1024);

/** A page of the app: a relative path without a way out of the app's folder. */
const entry = z
  .string()
  .min(1)
  .max(4096)
  .refine((path) => !/^[/\\]|^[a-z][a-z0-9+.-]*:|\0/i.test(path) && !path.split(/[/\\]/).includes(".."), {
    message: "entry must be a relative path inside the app",
  });

/** What a URL parser leaves out, an opener sees: the text that is checked must be the text that is opened. */
const leftOut = /^[\x00-\x20]|[\x00-\x20]$|[\t\n\r]/;

const externalUrl = z
  .string()
  .max(8192)
  .refine((text) => !leftOut.test(text), { message: "there are spaces around the URL, or line breaks in it" })
  .refine((text) => URL.canParse(text) && ["http:", "https:", "mailto:"].includes(new URL(text).protocol), {
    message: "only http, https and mailto URLs are opened",
  });

const win = z.int();
const filters = z.array(z.object({ name: title, extensions: z.array(z.string().max(64)).max(64) })).max(64);

export const opParams = {
  "window.create": z.object({
    entry,
    width: pixels.optional(),
    height: pixels.optional(),
    title: title.optional(),
    devTools: z.boolean().optional(),
  }),
  "window.close": z.object({ win }),
  "window.focus": z.object({ win }),
  "window.setTitle": z.object({ win, title }),
  "dialog.open": z.object({
    directory: z.boolean().default(false),
    multiple: z.boolean().default(false),
    title: title.optional(),
    defaultPath: z.string().max(4096).optional(),
    filters: filters.optional(),
  }),
  "dialog.save": z.object({
    title: title.optional(),
    defaultPath: z.string().max(4096).optional(),
    filters: filters.optional(),
  }),
  "dialog.message": z.object({
    message: longText,
    detail: longText.optional(),
    title: title.optional(),
    type: z.enum(["none", "info", "error", "question", "warning"]).optional(),
    buttons: z.array(title).max(16).optional(),
  }),
  "notification.show": z.object({ title, body: longText }),
  "clipboard.read": z.object({}),
  "clipboard.write": z.object({ text: z.string() }),
  "shell.openExternal": z.object({ url: externalUrl }),
  "app.quit": z.object({}),
} as const;

export type OpName = keyof typeof opParams;
export type OpParams<Name extends OpName> = z.infer<(typeof opParams)[Name]>;
export type WindowParams = OpParams<"window.create">;

/** What an operation may do to the session. */
export interface OpContext {
  /** Gives a new window its id. Throws {@link OpError} `too_many_windows`. */
  openWindow(params: WindowParams): number;
  /** Closes a window and tells the core. Throws {@link OpError} `no_window`. */
  closeWindow(win: number): void;
  /** Throws {@link OpError} `no_window` unless the window is open. */
  requireWindow(win: number): void;
  /** the session's own clipboard; the user's is left alone */
  clipboard: string;
}

/** Carries out an operation. What it returns is the reply's result; an {@link OpError} that it throws, its error. */
export type Ops = {
  readonly [Name in OpName]: (params: OpParams<Name>, context: OpContext) => unknown;
};

/** What a core may do unless the embedder says otherwise: nothing that reaches the user's clipboard or browser. */
export const defaultPermissions: readonly OpName[] = [
  "window.create",
  "window.close",
  "window.focus",
  "window.setTitle",
  "dialog.open",
  "dialog.save",
  "dialog.message",
  "notification.show",
  "app.quit",
];

/** Without a desktop: windows are only counted, dialogs are cancelled, the clipboard is the session's own. */
export const headlessOps: Ops = {
  "window.create": (params, context) => ({ win: context.openWindow(params) }),
  "window.close": ({ win }, context) => {
    context.closeWindow(win);
    return null;
  },
  "window.focus": ({ win }, context) => {
    context.requireWindow(win);
    return null;
  },
  "window.setTitle": ({ win }, context) => {
    context.requireWindow(win);
    return null;
  },
  "dialog.open": () => ({ canceled: true, paths: [] }),
  "dialog.save": () => ({ canceled: true, path: "" }),
  "dialog.message": () => ({ response: 0 }),
  "notification.show": () => null,
  "clipboard.read": (_, context) => ({ text: context.clipboard }),
  "clipboard.write": ({ text }, context) => {
    context.clipboard = text;
    return null;
  },
  "shell.openExternal": ({ url }) => openInBrowser(url),
  "app.quit": () => null,
};

export function isOpName(op: string): op is OpName {
  return Object.hasOwn(opParams, op);
}

/** Checks the params and carries the operation out. Throws {@link OpError} `bad_params`, or what the function throws. */
export async function carryOut<Name extends OpName>(
  ops: Ops,
  op: Name,
  params: unknown,
  context: OpContext,
): Promise<unknown> {
  const checked = opParams[op].safeParse(params);
  if (!checked.success) {
    const issue = checked.error.issues[0];
    throw new OpError("bad_params", `${op}: ${[issue?.path.join("."), issue?.message].filter(Boolean).join(": ")}`);
  }
  return (await ops[op](checked.data as OpParams<Name>, context)) ?? null;
}

function openInBrowser(url: string): Promise<null> {
  const opener = process.platform === "darwin" ? "open" : "xdg-open";
  return new Promise((resolve, reject) => {
    const child = spawn(opener, [url], { stdio: "ignore", detached: true });
    child.once("error", () => reject(new OpError("unavailable", `there is no ${opener} on this host`)));
    child.once("spawn", () => {
      child.unref();
      resolve(null);
    });
  });
}
