/**
 * The libc functions of the product, declared once. Every other file of sys/ wraps some of them; nothing outside sys/
 * sees a symbol. errno is read right after the call, before any JavaScript allocates.
 */
import { dlopen, type Pointer, ptr, read } from "bun:ffi";
import { SysError } from "./errors.ts";

const { symbols } = dlopen("libc.so.6", {
  __errno_location: { args: [], returns: "ptr" },
  accept4: { args: ["int", "ptr", "ptr", "int"], returns: "int" },
  bind: { args: ["int", "ptr", "u32"], returns: "int" },
  clock_settime: { args: ["int", "ptr"], returns: "int" },
  close: { args: ["int"], returns: "int" },
  connect: { args: ["int", "ptr", "u32"], returns: "int" },
  epoll_create1: { args: ["int"], returns: "int" },
  epoll_ctl: { args: ["int", "int", "int", "ptr"], returns: "int" },
  epoll_wait: { args: ["int", "ptr", "int", "int"], returns: "int" },
  faccessat: { args: ["int", "ptr", "int", "int"], returns: "int" },
  fcntl: { args: ["int", "int", "i64"], returns: "int" },
  getpeername: { args: ["int", "ptr", "ptr"], returns: "int" },
  getsockopt: { args: ["int", "int", "int", "ptr", "ptr"], returns: "int" },
  ioctl: { args: ["int", "u64", "ptr"], returns: "int" },
  kill: { args: ["int", "int"], returns: "int" },
  lgetxattr: { args: ["ptr", "ptr", "ptr", "u64"], returns: "i64" },
  listen: { args: ["int", "int"], returns: "int" },
  llistxattr: { args: ["ptr", "ptr", "u64"], returns: "i64" },
  lseek: { args: ["int", "i64", "int"], returns: "i64" },
  lsetxattr: { args: ["ptr", "ptr", "ptr", "u64", "int"], returns: "int" },
  mknod: { args: ["ptr", "u32", "u64"], returns: "int" },
  mount: { args: ["ptr", "ptr", "ptr", "u64", "ptr"], returns: "int" },
  pipe2: { args: ["ptr", "int"], returns: "int" },
  poll: { args: ["ptr", "u64", "int"], returns: "int" },
  read: { args: ["int", "ptr", "u64"], returns: "i64" },
  reboot: { args: ["int"], returns: "int" },
  sched_yield: { args: [], returns: "int" },
  setrlimit: { args: ["int", "ptr"], returns: "int" },
  recv: { args: ["int", "ptr", "u64", "int"], returns: "int" },
  renameat2: { args: ["int", "ptr", "int", "ptr", "u32"], returns: "int" },
  send: { args: ["int", "ptr", "u64", "int"], returns: "int" },
  signal: { args: ["int", "ptr"], returns: "ptr" },
  setsockopt: { args: ["int", "int", "int", "ptr", "u32"], returns: "int" },
  shutdown: { args: ["int", "int"], returns: "int" },
  socket: { args: ["int", "int", "int"], returns: "int" },
  splice: { args: ["int", "ptr", "int", "ptr", "u64", "u32"], returns: "int" },
  syscall: { args: ["i64", "i64", "ptr", "i64"], returns: "i64" },
  sync: { args: [], returns: "void" },
  sethostname: { args: ["ptr", "u64"], returns: "int" },
  utimensat: { args: ["int", "ptr", "ptr", "int"], returns: "int" },
  umount2: { args: ["ptr", "int"], returns: "int" },
  waitid: { args: ["int", "u32", "ptr", "int"], returns: "int" },
  waitpid: { args: ["int", "ptr", "int"], returns: "int" },
  write: { args: ["int", "ptr", "u64"], returns: "i64" },
});

export const libc = symbols;
export { ptr };

const errnoLocation = symbols.__errno_location() as Pointer;

/** errno of this thread's last failed call */
export function errno(): number {
  return read.i32(errnoLocation, 0);
}

/** Passes a result through; throws {@link SysError} when it is negative. */
export function check(call: string, result: number | bigint, subject?: string): number {
  if (result < 0) throw new SysError(call, errno(), subject);
  return Number(result);
}

/** A NUL-terminated copy for a `const char *` argument. Throws when the text holds a NUL itself. */
export function cString(text: string | Uint8Array): Buffer {
  if (typeof text !== "string") {
    if (text.includes(0))
      throw new TypeError(`a path with a NUL byte: ${JSON.stringify(Buffer.from(text).toString())}`);
    return Buffer.concat([text, new Uint8Array(1)]);
  }
  if (text.includes("\0")) throw new TypeError(`text with a NUL byte: ${JSON.stringify(text)}`);
  return Buffer.from(`${text}\0`, "utf8");
}

export const Errno = {
  EPERM: 1,
  ENOENT: 2,
  EINTR: 4,
  EIO: 5,
  ECHILD: 10,
  EAGAIN: 11,
  EBUSY: 16,
  EINVAL: 22,
  EPIPE: 32,
  ECONNABORTED: 103,
  ECONNREFUSED: 111,
} as const;
