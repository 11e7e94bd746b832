/** Numbers of the control contract. Lengths are in bytes, times in milliseconds. */

/** largest payload of a frame that both ends of v1 accept: below 4 MiB, exclusive */
export const maxFrameBytes = 4 * 1024 * 1024 - 1;

/** protocol version of every frame */
export const protocolVersion = 1;

/** largest image that the clipboard takes */
export const maxClipboardImageBytes = 50 * 1024 * 1024;

/** what a guest accepts as an update when its hello names no `max_update`: below 10 MiB, exclusive */
export const stockMaxUpdateBytes = 10 * 1024 * 1024 - 1;
