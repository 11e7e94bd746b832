/** Bytes that repeat nowhere near, so that one lost, doubled or moved shows. */
export function pattern(count: number, seed: number): Buffer {
  const bytes = Buffer.allocUnsafe(count);
  let state = seed >>> 0 || 1;
  for (let index = 0; index < count; index += 1) {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    bytes[index] = state >>> 24;
  }
  return bytes;
}
