/**
 * The environment of everything PID 1 starts. The kernel makes unknown words of its command line into PID 1's own
 * environment, where one such as `LD_PRELOAD=` would reach every process; so nothing of it is handed on.
 */
const base = {
  PATH: "/usr/sbin:/usr/bin:/sbin:/bin",
  HOME: "/root",
  USER: "root",
  SHELL: "/bin/sh",
} as const;

export function serviceEnvironment(additions: Readonly<Record<string, string>> = {}): Record<string, string> {
  return { ...base, ...additions };
}
