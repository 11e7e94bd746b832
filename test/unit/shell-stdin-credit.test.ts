import { describe, expect, test } from "bun:test";
import fc from "fast-check";
import { StdinCredit } from "#host/clients/shell/credit.ts";

const seed = Number(process.env.VMAPP_FUZZ_SEED ?? Date.now() % 1_000_000_000);

describe("a client's stdin credit", () => {
  test("holds everything back until window or started has arrived", () => {
    const credit = new StdinCredit();
    expect(credit.known).toBe(false);
    expect(credit.take(1)).toBe(0);
  });

  test("a window before started means credit, and no more of it than was granted", () => {
    const credit = new StdinCredit();
    credit.add(10);
    credit.started();
    expect(credit.take(4)).toBe(4);
    expect(credit.take(100)).toBe(6);
    expect(credit.take(1)).toBe(0);
    credit.add(3);
    expect(credit.take(100)).toBe(3);
  });

  test("started alone means no limit, as with an agent without flow control", () => {
    const credit = new StdinCredit();
    credit.started();
    expect(credit.known).toBe(true);
    expect(credit.take(2 ** 30)).toBe(2 ** 30);
    credit.add(1);
    expect(credit.take(2 ** 30)).toBe(2 ** 30);
  });

  test("a window of zero is credit of nothing, not the lack of a limit", () => {
    const credit = new StdinCredit();
    credit.add(0);
    credit.started();
    expect(credit.take(1)).toBe(0);
  });

  test("whoever waits is called once for a change", () => {
    const credit = new StdinCredit();
    let calls = 0;
    credit.whenChanged(() => {
      calls += 1;
    });
    credit.add(1);
    credit.add(1);
    expect(calls).toBe(1);
  });

  test("no order of grants and wishes hands out more than was granted", () => {
    const step = fc.record({ grant: fc.boolean(), bytes: fc.nat(1000) });
    fc.assert(
      fc.property(fc.array(step), (steps) => {
        const credit = new StdinCredit();
        credit.add(100);
        credit.started();
        let granted = 100;
        let taken = 0;
        for (const { grant, bytes } of steps) {
          if (grant) {
            credit.add(bytes);
            granted += bytes;
          } else {
            const got = credit.take(bytes);
            expect(got).toBe(Math.min(bytes, granted - taken));
            taken += got;
          }
        }
        expect(taken).toBeLessThanOrEqual(granted);
      }),
      { seed, numRuns: 300 },
    );
  });
});
