/** The forwarder as it runs over vsock, copying what goes to the host, between two Unix sockets: `LISTEN APP`. */
import { Forwarder } from "#init/bridge/forwarder.ts";
import { createLog } from "#sys/log.ts";
import { listenUnix } from "#sys/stream-socket.ts";

const [listenPath = "", appSocket = ""] = process.argv.slice(2);
const listenerFd = listenUnix({ path: listenPath, backlog: 128 });
const log = createLog("forwarder");
log.info("listening");
new Forwarder({ listenerFd, appSocket, refusal: () => undefined, toHost: "copy", log }).run();
