/** Attaches a terminal to a session and then fails in a way that nobody catches: `crashing-client.ts TARGET`. */
import { attachTerminal } from "#host/clients/shell/terminal.ts";
import { Guest } from "#host/guest.ts";

async function main(): Promise<void> {
  const argv = ["sh", "-c", "echo ready; cat"];
  const session = await Guest.connect(process.argv[2] ?? "").shell({ argv, tty: true });
  process.stdin.once("data", () => {
    setTimeout(() => {
      throw new Error("a fault that nobody catches");
    });
  });
  await attachTerminal({ session, input: process.stdin, output: process.stdout, size: undefined });
}

void main();
