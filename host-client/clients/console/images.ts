import type { ImageEntry, ImageSource, Recipe } from "#protocol/console/image.ts";
import type { Asker } from "./asker.ts";
import { type ConsoleChannelOptions, openAsker } from "./console.ts";

/** The images of a console server, without a session. Errors as those of Console. */
export class Images implements AsyncDisposable {
  readonly #asker: Asker;
  #closing: Promise<void> | undefined;

  private constructor(
    asker: Asker,
    /** the protocol's version that the server speaks */
    readonly version: string,
  ) {
    this.#asker = asker;
  }

  /** Opens a channel and asks for the version, so that one that exists is one that was answered. */
  static async open(options: ConsoleChannelOptions): Promise<Images> {
    const asker = await openAsker(options);
    try {
      const { version } = await asker.call("version", {}, options.answerWithinMs);
      return new Images(asker, version);
    } catch (error) {
      asker.abandon();
      throw error;
    }
  }

  /** Builds the image, as long as that takes. Without a `ref` the server names it. */
  build(recipe: Recipe, ref?: string): Promise<{ ref: string; digest: string }> {
    return this.#asker.call("build_image", { recipe, ref });
  }

  async list(): Promise<readonly ImageEntry[]> {
    return (await this.#asker.call("list_images", {})).images;
  }

  /** Deletes an image by its name or its digest. */
  async remove(image: Exclude<ImageSource, { type: "recipe" }>): Promise<void> {
    await this.#asker.call("remove_image", { image });
  }

  /** Ends the channel; again, it does nothing. */
  close(): Promise<void> {
    this.#closing ??= this.#asker.quit();
    return this.#closing;
  }

  [Symbol.asyncDispose](): Promise<void> {
    return this.close();
  }
}
