/** The file requests of a bare peer. */
import { createHash } from "node:crypto";
import { Daemon } from "./daemon.ts";
import { frame, type Json, type RawPeer } from "./raw-peer.ts";

export const sha256 = (bytes: Uint8Array): Buffer => createHash("sha256").update(bytes).digest();

export interface Got {
  readonly reply: Json | undefined;
  readonly raw: Buffer | undefined;
}

export async function get(peer: RawPeer, path: string, more: Json = {}): Promise<Got> {
  const reply = await peer.ask({ v: 1, t: "file_get", id: "g", path, ...more });
  return { reply, raw: reply?.t === "file_data" ? await peer.take(Number(reply.size)) : undefined };
}

export function put(
  peer: RawPeer,
  path: string | undefined,
  content: Uint8Array,
  more: Json = {},
): Promise<Json | undefined> {
  peer.sendBytes(
    Buffer.concat([
      frame({ v: 1, t: "file_put", id: "p", ...(path === undefined ? {} : { path }), size: content.length, ...more }),
      content,
    ]),
  );
  return peer.reply();
}

export const list = (peer: RawPeer, path: string, more: Json = {}): Promise<Json | undefined> =>
  peer.ask({ v: 1, t: "file_list", id: "l", path, ...more });

export function entriesOf(reply: Json | undefined): Json[] {
  return reply?.entries as Json[];
}

export async function onPeer(
  work: (peer: RawPeer, root: string, daemon: Daemon) => Promise<void>,
  options = {},
): Promise<void> {
  await using daemon = await Daemon.start(options);
  const peer = await daemon.greeted();
  await work(peer, daemon.root, daemon);
  peer.close();
}
