/** A thread for the calls that block for as long as a filesystem does. One request at a time, one reply each. */
import { remountReadOnly, unmount } from "#sys/mount.ts";
import { syncFilesystems } from "#sys/power.ts";
import type { FilesystemCall, FilesystemReply } from "./filesystem-calls.ts";

declare const self: Worker;

self.onmessage = ({ data: call }: MessageEvent<FilesystemCall>) => {
  try {
    carryOut(call);
    reply({ error: undefined });
  } catch (error) {
    reply({ error: error instanceof Error ? error.message : String(error) });
  }
};

function reply(message: FilesystemReply): void {
  postMessage(message);
}

function carryOut(call: FilesystemCall): void {
  switch (call.do) {
    case "sync":
      syncFilesystems();
      return;
    case "unmount":
    case "detach":
      unmount(call.target, { detach: call.do === "detach" });
      return;
    case "remount-read-only":
      remountReadOnly(call.target);
  }
}
