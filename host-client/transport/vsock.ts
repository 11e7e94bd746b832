import { createConnection, type Socket } from "node:net";
import type { TransportError, TransportErrorCode } from "./error.ts";

type MakeError = (code: TransportErrorCode, reason: string, cause?: unknown) => TransportError;

/** Opens AF_VSOCK, which only Bun can (through FFI): the syscalls are loaded on first use, so Node runs the rest. */
export async function openVsock(cid: number, port: number, makeError: MakeError): Promise<Socket> {
  if (process.versions.bun === undefined) {
    throw makeError("unsupported", "AF_VSOCK needs Bun; on Node use a hybrid: or unix: target");
  }
  const { connectVsock } = await import("#sys/vsock.ts");
  let fd: number;
  try {
    fd = connectVsock({ cid, port });
  } catch (cause) {
    throw explain(cause, makeError);
  }
  // net.connect adopts the connected fd; `new net.Socket({ fd })` gets no data on Bun.
  const options: { fd: number; allowHalfOpen: boolean } = { fd, allowHalfOpen: true };
  const socket = createConnection(options as unknown as { path: string });
  socket.pause();
  return socket;
}

function explain(cause: unknown, makeError: MakeError): TransportError {
  const { code: errno } = cause as { code?: string };
  switch (errno) {
    case "ECONNRESET":
    case "ECONNREFUSED":
      return makeError("refused", "nothing listens on that port in the guest", cause);
    case "ENODEV":
      return makeError("unreachable", "no guest has that CID", cause);
    case "ETIMEDOUT":
      return makeError("timeout", "the guest did not answer", cause);
    default:
      return makeError("unreachable", cause instanceof Error ? cause.message : String(cause), cause);
  }
}
