/** Runs inside a guest: sends a hello and one request to the control socket in argv and prints the reply to the request. */
import { createConnection } from "node:net";
import { encodeMessage } from "#protocol/control/message.ts";
import { ControlReader } from "#protocol/control/reader.ts";

const [path, request] = process.argv.slice(2) as [string, string];
const socket = createConnection({ path });
const reader = new ControlReader({ pause: () => socket.pause(), resume: () => socket.resume() });
socket.on("data", (chunk: Buffer) => reader.push(chunk));
socket.on("close", () => reader.end());
socket.on("error", (error) => console.error(error.message));
socket.write(encodeMessage({ t: "hello" }));
socket.write(encodeMessage(JSON.parse(request) as { t: string }));
await reader.frame();
console.log(JSON.stringify(await reader.frame()));
socket.destroy();
