import { maxFrameBytes } from "#protocol/control/limits.ts";
import type { RequestOf } from "#protocol/control/requests.ts";
import type { Reply, RequestBody } from "./reply.ts";
import { RequestError } from "./request-error.ts";

const pngSignature = Buffer.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a]);

/** room for the rest of a `clipboard_get` reply beside the text */
const envelopeBytes = 128 * 1024;

/** A clipboard that the daemon itself holds, for guests without a display server: one text or one PNG image, in memory. */
export class Clipboard {
  #text: string | undefined;
  #image: Buffer | undefined;
  #changes = 0;

  get(): Reply {
    const text = this.#text;
    const image = this.#image;
    return {
      fields: {
        t: "clipboard_get",
        change_count: this.#changes,
        types: [...(text === undefined ? [] : ["text/plain"]), ...(image === undefined ? [] : ["image/png"])],
        ...(text === undefined ? {} : { text }),
        has_image: image !== undefined,
        ...(image === undefined ? {} : { image_size: image.length }),
      },
      ...(image === undefined ? {} : { body: (send) => send(image) }),
    };
  }

  async set(request: RequestOf<"clipboard_set">, body: RequestBody): Promise<Reply> {
    if (request.type === "image") await this.#setImage(body);
    else this.#setText(request.text);
    this.#changes++;
    return { fields: { t: "clipboard_set", ok: true, change_count: this.#changes } };
  }

  #setText(text: string | undefined): void {
    if (text === undefined) throw new RequestError("bad_request", "missing text");
    if (Buffer.byteLength(JSON.stringify(text)) > maxFrameBytes - envelopeBytes)
      throw new RequestError("too_large", "the text would not fit into a reply");
    this.#text = text;
    this.#image = undefined;
  }

  async #setImage(body: RequestBody): Promise<void> {
    if (body.size === 0) throw new RequestError("bad_request", "invalid image size");
    const pieces: Uint8Array[] = [];
    for (let piece = await body.next(); piece !== undefined; piece = await body.next()) pieces.push(piece);
    const image = Buffer.concat(pieces);
    if (!image.subarray(0, pngSignature.length).equals(pngSignature))
      throw new RequestError("bad_request", "the image is not a PNG");
    this.#image = image;
    this.#text = undefined;
  }
}
