/** What was thrown, as the error of a call. JavaScript can throw anything, and whatever it is must not end the connection. */
import type { ErrorBody } from "./messages.ts";

/** longest message of an error that goes to the other end, in UTF-16 units */
const maxMessageUnits = 16 * 1024;

/** Message and code of an Error, or of what is shaped like one; the text of anything else. Never throws. */
export function errorBodyOf(thrown: unknown): ErrorBody {
  try {
    if (typeof thrown !== "object" || thrown === null) return { message: cut(String(thrown)) };
    const message: unknown = Reflect.get(thrown, "message");
    const code: unknown = Reflect.get(thrown, "code");
    const text = cut(typeof message === "string" ? message : String(thrown));
    return typeof code === "string" ? { message: text, code: cut(code) } : { message: text };
  } catch {
    return { message: "something was thrown that has no text" };
  }
}

function cut(text: string): string {
  return text.length > maxMessageUnits ? `${text.slice(0, maxMessageUnits)}…` : text;
}
