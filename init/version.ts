import { version } from "../package.json" with { type: "json" };

/** put in by the build (`--define`) */
declare const VMAPP_BUILD_ID: string | undefined;

/** which sources this executable was built from; `dev` when it runs from them */
export const buildId = typeof VMAPP_BUILD_ID === "string" ? VMAPP_BUILD_ID : "dev";

export const versionLine = `vmapp-init ${version} (${buildId})`;
