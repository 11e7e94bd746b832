import { resolve } from "node:path";
import { Command } from "commander";
import { Guest } from "../../guest.ts";
import { ShellProxy } from "../../servers/shell-proxy.ts";
import { describeFailure } from "../failure.ts";
import { note } from "../output.ts";
import { onStopSignal } from "../stop-signals.ts";

export function proxyCommand(): Command {
  return new Command("proxy")
    .description("serve a guest's ports at sockets of this host, for clients with a protocol of their own")
    .argument("<target>", "NAME of a VM, vsock:CID, hybrid:/path or unix:/dir")
    .requiredOption("--shell <path>", "Unix socket for the shell protocol (vsock port 1027), made with mode 0600")
    .addHelpText(
      "after",
      `
Each connection to the socket becomes one to the guest; bytes are copied both ways and not looked at. A client that cannot
be served sees its connection closed, and the reason is printed here. ^C or SIGTERM ends the proxy with 0, and removes the
socket.

Example:
  vmapp proxy a --shell ~/a-shell.sock`,
    )
    .action(async (target: string, options: { shell: string }) => {
      const guest = Guest.connect(target);
      const path = resolve(options.shell);
      const stopped = new Promise<void>((stop) => onStopSignal(() => stop()));
      await using _proxy = await ShellProxy.start({ guest, path, onProblem: reportOnce() });
      note(`serving the shell of ${guest.name} at ${path}`);
      await stopped;
    });
}

/** A client that tries again and again fails for the same reason each time, which is said once. */
function reportOnce(): (error: unknown) => void {
  let last: string | undefined;
  return (error) => {
    const text = describeFailure(error);
    if (text !== last) note(text);
    last = text;
  };
}
