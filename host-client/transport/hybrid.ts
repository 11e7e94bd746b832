import type { Socket } from "node:net";

/** Why a hybrid handshake did not end with `OK`. */
export type HybridFailure =
  /** closed without an answer: nothing listens on the port in the guest */
  | { kind: "closed" }
  /** something else than `OK <number>\n` came */
  | { kind: "unexpected"; answer: string };

/** `OK `, a u32 in decimal and the newline fit; nothing longer is an answer. */
const maxAnswerBytes = 32;

/**
 * Asks for a guest port on a hybrid socket: sends `CONNECT port\n` and takes exactly the line `OK n\n`. Bytes that the
 * guest sent behind the line stay in the socket, which is left paused. Resolves with the failure, or `undefined` when
 * connected; rejects only with the socket's own error.
 */
export function connectHybridPort(socket: Socket, port: number): Promise<HybridFailure | undefined> {
  return new Promise((resolve, reject) => {
    let answer: Buffer = Buffer.alloc(0);

    const settle = (failure: HybridFailure | undefined) => {
      socket.off("data", onData);
      socket.off("end", onClosed);
      socket.off("close", onClosed);
      socket.off("error", onError);
      socket.pause();
      resolve(failure);
    };
    const onClosed = () => settle({ kind: "closed" });
    const onError = (error: Error) => {
      const code = (error as NodeJS.ErrnoException).code;
      // The device drops a refused connection while our line is still on its way.
      if (code === "ECONNRESET" || code === "EPIPE") {
        settle({ kind: "closed" });
        return;
      }
      settle(undefined);
      reject(error);
    };
    const onData = (chunk: Buffer) => {
      answer = answer.length === 0 ? chunk : Buffer.concat([answer, chunk]);
      const newline = answer.indexOf(0x0a);
      if (newline < 0 && answer.length <= maxAnswerBytes) return;
      const line = answer.subarray(0, newline < 0 ? maxAnswerBytes : newline).toString("latin1");
      if (newline < 0 || !/^OK \d+$/.test(line)) {
        settle({ kind: "unexpected", answer: line });
        return;
      }
      settle(undefined);
      const rest = answer.subarray(newline + 1);
      if (rest.length > 0) socket.unshift(rest);
    };

    socket.on("data", onData);
    socket.on("end", onClosed);
    socket.on("close", onClosed);
    socket.on("error", onError);
    socket.resume();
    socket.write(`CONNECT ${port}\n`);
  });
}
