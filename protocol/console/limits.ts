/** Sizes of the console's wire, in bytes. */

/** largest payload of a frame, 64 MiB */
export const maxPayload = 64 * 1024 * 1024;

/** room that is kept for what surrounds bytes in a frame */
const envelopeRoom = 1024;

/** most that one `read` or one `snapshot` carries */
export const maxBlobBytes = maxPayload - envelopeRoom;

/** most that an `exec` carries of each of its two streams; longer output is cut and said to be */
export const maxStreamBytes = (maxPayload - envelopeRoom) / 2;
