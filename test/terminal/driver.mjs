// Holds one pseudo-terminal for a test, on Node, where node-pty works. Spoken to in JSON lines on standard input and output.
//   argv: JSON { file, args, cols, rows, env, cwd }
//   in:   { write: base64 } | { resize: [cols, rows] } | { flow: "pause" | "resume" }
//   out:  { pid } | { output: base64 } | { exit: code, signal }
import { constants, openSync } from "node:fs";
import { createInterface } from "node:readline";
import { spawn } from "node-pty";

const { file, args, cols, rows, env, cwd } = JSON.parse(process.argv[2]);
const say = (message) => process.stdout.write(`${JSON.stringify(message)}\n`);

process.stdout.on("error", () => {});

const pty = spawn(file, args, { cols, rows, env, cwd, encoding: null });
// While the other end is open too, what the program wrote last can still be read when it has gone.
openSync(pty.ptsName, constants.O_RDWR | constants.O_NOCTTY);
say({ pid: pty.pid });
pty.onData((bytes) => say({ output: Buffer.from(bytes).toString("base64") }));
pty.onExit(({ exitCode, signal }) => {
  say({ exit: exitCode, signal });
  process.stdin.destroy();
});

const lines = createInterface({ input: process.stdin });
lines.on("line", (line) => {
  const { write, resize, flow } = JSON.parse(line);
  if (write !== undefined) pty.write(Buffer.from(write, "base64"));
  if (resize !== undefined) pty.resize(...resize);
  if (flow === "pause") pty.pause();
  if (flow === "resume") pty.resume();
});
// The test has gone: so does what it started.
lines.on("close", () => process.kill(pty.pid, "SIGKILL"));
