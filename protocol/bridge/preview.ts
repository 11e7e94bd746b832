/**
 * The inspector's preview of a message: the first 200 characters of its JSON, with what looks like a secret replaced by
 * `"[hidden]"` before anything is cut, so that no head of a secret shows at the edge. Writing stops once the preview is
 * full, so a message of 16 MiB costs no more than a small one.
 */
import type { BridgeMessage } from "./messages.ts";

/** length of a preview, in characters (code points) */
export const previewCharacters = 200;

const hidden = '"[hidden]"';
/** a code point is at most two UTF-16 units */
const enoughUnits = previewCharacters * 2;
/** compared with a key or a channel in lower case, without `-`, `_`, `.`, `:` and spaces */
const secretWord = /apikey|token|secret|password|authorization/;
const separators = /[-_.:\s]/g;
const secretText = /sk-[A-Za-z0-9_-]{16}/;

/** Whether a key or a channel is named like one that carries a secret: `apiKey`, `ACCESS_TOKEN`, `api-keys:set`. */
export function looksSecret(name: string): boolean {
  return secretWord.test(name.toLowerCase().replace(separators, ""));
}

/**
 * `channel` is the one that a `result` answers: the payload of a secret channel is hidden on its way back too. Where
 * nobody knows it, any might be meant.
 */
export function previewMessage(message: BridgeMessage, channel?: string): string {
  const name = "channel" in message ? message.channel : channel;
  const secret = name === undefined ? message.t === "result" : looksSecret(name);
  return previewValue(message, secret ? payloadFields : noFields);
}

const payloadFields: ReadonlySet<string> = new Set(["args", "result", "error"]);
const noFields: ReadonlySet<string> = new Set();

/** The preview of any JSON value; `hiddenFields` names top-level fields whose values are not shown. */
export function previewValue(value: unknown, hiddenFields: ReadonlySet<string> = noFields): string {
  const writer = new PreviewWriter();
  writer.write(value, "", hiddenFields);
  return Array.from(writer.text).slice(0, previewCharacters).join("");
}

class PreviewWriter {
  text = "";

  private get full(): boolean {
    return this.text.length > enoughUnits;
  }

  /** Writes like JSON.stringify. Returns false where that would leave the value out. */
  write(given: unknown, key: string, hiddenFields: ReadonlySet<string> = noFields): boolean {
    const value = jsonValue(given, key);
    switch (typeof value) {
      case "string":
        this.text += jsonString(value);
        return true;
      case "number":
        this.text += Number.isFinite(value) ? String(value === 0 ? 0 : value) : "null";
        return true;
      case "boolean":
        this.text += String(value);
        return true;
      case "object":
        if (value === null) this.text += "null";
        else if (Array.isArray(value)) this.writeArray(value);
        else this.writeObject(value as Record<string, unknown>, hiddenFields);
        return true;
      default:
        return false;
    }
  }

  private writeArray(items: readonly unknown[]): void {
    this.text += "[";
    for (let index = 0; index < items.length && !this.full; index += 1) {
      if (index > 0) this.text += ",";
      if (!this.write(items[index], String(index))) this.text += "null";
    }
    this.text += "]";
  }

  private writeObject(fields: Record<string, unknown>, hiddenFields: ReadonlySet<string>): void {
    this.text += "{";
    let first = true;
    for (const key in fields) {
      if (this.full) break;
      if (!Object.hasOwn(fields, key)) continue;
      const before = this.text;
      this.text += `${first ? "" : ","}${jsonString(key)}:`;
      if (hiddenFields.has(key) || looksSecret(key)) this.text += hidden;
      else if (!this.write(fields[key], key)) {
        this.text = before;
        continue;
      }
      first = false;
    }
    this.text += "}";
  }
}

function jsonValue(given: unknown, key: string): unknown {
  let value = given;
  if (typeof value === "object" && value !== null) {
    const toJson: unknown = Reflect.get(value, "toJSON");
    if (typeof toJson === "function") value = toJson.call(value, key);
  }
  if (value instanceof String || value instanceof Number || value instanceof Boolean) return value.valueOf();
  return value;
}

function jsonString(text: string): string {
  if (secretText.test(text)) return hidden;
  return JSON.stringify(text.length > enoughUnits ? text.slice(0, enoughUnits + 2) : text);
}
