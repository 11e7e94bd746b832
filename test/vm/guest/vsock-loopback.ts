/**
 * Runs inside a guest: connects to the port in argv over vsock loopback and says what happened, one line of JSON.
 * The peer it shows the service is the guest itself (CID 1), which is not the host.
 */
import { closeFd, readFd, setNonBlocking, WOULD_BLOCK } from "#sys/fd.ts";
import { cidLocal, connectVsock } from "#sys/vsock.ts";

const patienceMs = 5_000;

async function probe(port: number): Promise<string> {
  const fd = connectVsock({ cid: cidLocal, port });
  setNonBlocking(fd);
  const deadline = performance.now() + patienceMs;
  try {
    while (performance.now() < deadline) {
      const count = readFd(fd, new Uint8Array(1), 0, 1);
      if (count !== WOULD_BLOCK) return count === 0 ? "closed" : "answered";
      await Bun.sleep(20);
    }
    return "kept open";
  } finally {
    closeFd(fd);
  }
}

probe(Number(process.argv[2])).then(
  (outcome) => console.log(JSON.stringify({ outcome })),
  (error: unknown) => console.log(JSON.stringify({ outcome: String(error) })),
);
