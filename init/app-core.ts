/** The app core as a service of PID 1: where its manifest is, where its socket and its data are, and what its end means. */
import { chmodSync, chownSync, mkdirSync } from "node:fs";
import { dirname } from "node:path";
import { findAccount } from "#agent/shell/account.ts";
import { type AppManifest, appManifestPath, parseAppManifest } from "#protocol/app-manifest.ts";
import { readImageFile } from "./image-file.ts";
import type { ServiceSpec } from "./services.ts";

/** where the core of an app that runs as root listens, and the one of an app that was started by hand */
const rootSocket = "/run/vmapp/app.sock";
/** another user cannot write to /run/vmapp, and gets a directory of its own in it */
const userSocket = "/run/vmapp/app/app.sock";

export interface AppCore {
  readonly manifest: AppManifest;
  /** path of the socket that the core listens on */
  readonly socket: string;
  readonly service: ServiceSpec;
}

/**
 * The app that the boot config or the image names, or undefined without one. Throws an Error that says what is wrong with
 * the manifest, or that its user is unknown.
 */
export function findAppCore({
  configured,
  env,
  onQuit,
  manifestPath = appManifestPath,
}: {
  /** the boot config's */
  configured: AppManifest | undefined;
  /** the environment that every service gets */
  env: Readonly<Record<string, string>>;
  /** the app has ended with 0 and is not started again */
  onQuit: () => void;
  manifestPath?: string;
}): AppCore | undefined {
  const manifest = configured ?? readManifest(manifestPath);
  if (manifest === undefined) return undefined;
  const account = findAccount(manifest.user);
  const socket = account.uid === 0 ? rootSocket : userSocket;
  return {
    manifest,
    socket,
    service: {
      name: "app",
      argv: manifest.argv as [string, ...string[]],
      env: {
        ...env,
        HOME: account.home,
        USER: account.name,
        SHELL: account.shell,
        ...manifest.env,
        VMAPP_SOCKET: socket,
        VMAPP_DATA: manifest.data,
      },
      cwd: manifest.cwd,
      credentials: account.uid === 0 ? undefined : account,
      restart: manifest.restart,
      output: "prefixed",
      carriesSessions: false,
      onEnd: (code) => {
        if (code === 0 && manifest.restart !== "always") onQuit();
      },
    },
  };
}

/** Makes the directories that the core finds ready, owned by its user. Throws when one cannot be made. */
export function prepareAppPlaces({ manifest, socket, service }: AppCore): void {
  const owned = socket === userSocket ? [dirname(socket), manifest.data] : [manifest.data];
  for (const path of owned) {
    const made = mkdirSync(path, { recursive: true, mode: 0o700 });
    if (made === undefined && path === manifest.data) continue;
    chmodSync(path, 0o700);
    if (service.credentials !== undefined) chownSync(path, service.credentials.uid, service.credentials.gid);
  }
}

function readManifest(path: string): AppManifest | undefined {
  try {
    const text = readImageFile(path);
    return text === undefined ? undefined : parseAppManifest(text);
  } catch (error) {
    throw new Error(`${path}: ${error instanceof Error ? error.message : String(error)}`);
  }
}
