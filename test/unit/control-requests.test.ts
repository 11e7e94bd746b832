import { expect, test } from "bun:test";
import { parseRequest } from "#protocol/control/requests.ts";

test("a seed has 32 to 512 bytes", () => {
  const accepted = [0, 31, 32, 33, 34, 511, 512, 513, 514].filter(
    (bytes) => parseRequest({ v: 1, t: "reseed", seed: Buffer.alloc(bytes, 7).toString("base64") }).ok,
  );
  expect(accepted).toEqual([32, 33, 34, 511, 512]);
});
