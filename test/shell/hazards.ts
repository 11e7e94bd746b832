/**
 * What breaks in systems like this one, as checks on ours: the same for an agent on Unix sockets and for a guest in a VM,
 * over the library that its users use. Numbers are the rows of the project's table of hazards.
 */
import { expect } from "bun:test";
import { createHash } from "node:crypto";
import { Readable } from "node:stream";
import type { ShellSession } from "#host/clients/shell/session.ts";
import type { Guest } from "#host/guest.ts";

/** Where a session's command stands: `tty` means a pty, made raw where bytes are counted. */
export interface Place {
  readonly guest: Guest;
  readonly tty: boolean;
}

const size = { rows: 24, cols: 80 };

/** A shell script on pipes or on a pty, with nothing of the terminal's translation in the way. */
function shellScript({ guest, tty }: Place, text: string): Promise<ShellSession> {
  const script = tty ? `stty raw -echo; ${text}` : text;
  return guest.shell({ argv: ["sh", "-c", script], tty, ...(tty && size) });
}

async function collect(stream: Readable): Promise<Buffer> {
  const pieces: Buffer[] = [];
  for await (const piece of stream as AsyncIterable<Buffer>) pieces.push(piece);
  return Buffer.concat(pieces);
}

/** Runs a script to its end and returns its output. */
async function outputOf(place: Place, text: string): Promise<{ code: number; stdout: Buffer }> {
  const session = await shellScript(place, text);
  session.stdin.on("error", () => {});
  session.stderr.resume();
  const [stdout, { code }] = await Promise.all([collect(session.stdout), session.exit]);
  return { code, stdout };
}

/** How long one `true` takes, in milliseconds. */
async function trueMs(guest: Guest): Promise<number> {
  const started = performance.now();
  const { code } = await guest.exec(["true"]);
  expect(code).toBe(0);
  return performance.now() - started;
}

function percentile(values: readonly number[], share: number): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[Math.min(sorted.length - 1, Math.floor(sorted.length * share))] ?? Number.NaN;
}

function* pattern(bytes: number): Generator<Buffer> {
  const block = Buffer.alloc(65_536);
  for (let offset = 0; offset < bytes; offset += block.length) {
    for (let index = 0; index < block.length; index += 4)
      block.writeUInt32LE(((offset + index) * 2654435761) >>> 0, index);
    yield Buffer.from(block.subarray(0, Math.min(block.length, bytes - offset)));
  }
}

/**
 * Hazard 1: a command gets all of an input larger than a pipe, and what it echoes hashes equal. On a pty the end of the
 * input is a count, as a terminal has no end-of-file of its own in raw mode.
 */
export async function largeInputArrives(place: Place, bytes: number): Promise<void> {
  const sent = createHash("sha256");
  for (const piece of pattern(bytes)) sent.update(piece);

  let count = "";
  await feedThrough(place, place.tty ? `head -c ${bytes} | wc -c` : "wc -c", bytes, (piece) => {
    count += piece.toString();
  });
  expect(count.trim()).toBe(String(bytes));

  const received = createHash("sha256");
  let got = 0;
  await feedThrough(place, place.tty ? `head -c ${bytes}` : "cat", bytes, (piece) => {
    received.update(piece);
    got += piece.length;
  });
  expect(got).toBe(bytes);
  expect(received.digest("hex")).toBe(sent.digest("hex"));
}

/** Feeds the pattern to a command, from the moment it is ready: before a terminal is raw, ^C and ^D mean something. */
async function feedThrough(place: Place, command: string, bytes: number, take: (piece: Buffer) => void): Promise<void> {
  const session = await shellScript(place, `echo ready; ${command}`);
  session.stderr.resume();
  let greeting = "";
  await new Promise<void>((resolve, reject) => {
    session.exit.then(() => reject(new Error("the command ended before it was ready")), reject);
    session.stdout.on("data", (piece: Buffer) => {
      const missing = "ready\n".length - greeting.length;
      greeting += piece.subarray(0, missing).toString();
      if (piece.length > missing) take(piece.subarray(missing));
      if (missing > 0 && greeting === "ready\n") resolve();
    });
  });
  const ended = new Promise((resolve) => session.stdout.once("end", resolve));
  await new Promise<void>((resolve, reject) => {
    session.stdin.on("error", reject);
    session.stdin.on("finish", resolve);
    Readable.from(pattern(bytes)).pipe(session.stdin);
  });
  const [{ code }] = await Promise.all([session.exit, ended]);
  expect(code).toBe(0);
}

/** Hazard 2: a background child does not keep the session. */
export async function backgroundChildEnds(place: Place, limitMs: number): Promise<void> {
  for (const prefix of ["", "setsid "]) {
    const started = performance.now();
    const { code, stdout } = await outputOf(place, `echo hi; ${prefix}sleep 30 &`);
    expect([code, stdout.toString()]).toEqual([0, "hi\n"]);
    expect(performance.now() - started).toBeLessThan(limitMs);
  }
}

/** Hazard 3: the tail of the output is there each time, and the exit comes last. */
export async function tailIsThere(place: Place, rounds: number): Promise<void> {
  const expected = 300_000 + "END\n".length;
  for (let done = 0; done < rounds; ) {
    const batch = Math.min(4, rounds - done);
    const results = await Promise.all(
      Array.from({ length: batch }, () => outputOf(place, "head -c 300000 /dev/zero; echo END")),
    );
    for (const { code, stdout } of results) {
      expect([code, stdout.length]).toEqual([0, expected]);
      expect(stdout.subarray(-4).toString()).toBe("END\n");
    }
    done += batch;
  }
}

/** Hazard 4: a large output arrives whole and in order while another session goes on answering. */
export async function largeOutputArrives(place: Place, bytes: number, answersWithinMs: number): Promise<void> {
  const line = "0123456789abcdef".repeat(8).slice(0, 127);
  const flood = await shellScript(place, `yes ${line} | head -c ${bytes}`);
  flood.stderr.resume();
  const hash = createHash("sha256");
  let got = 0;
  let over = false;
  const reading = (async () => {
    for await (const piece of flood.stdout as AsyncIterable<Buffer>) {
      got += piece.length;
      hash.update(piece);
    }
    over = true;
  })();
  const answering = (async () => {
    const times: number[] = [];
    while (!over) {
      times.push(await trueMs(place.guest));
      await Bun.sleep(20);
    }
    return times;
  })();
  const [, { code }, times] = await Promise.all([reading, flood.exit, answering]);
  expect([code, got]).toEqual([0, bytes]);
  expect(Math.max(...times)).toBeLessThan(answersWithinMs);

  const expected = createHash("sha256");
  const block = Buffer.from(`${line}\n`.repeat(8192));
  for (let left = bytes; left > 0; left -= block.length)
    expected.update(block.subarray(0, Math.min(left, block.length)));
  expect(hash.digest("hex")).toBe(expected.digest("hex"));
}

export interface TrueTimes {
  readonly medianMs: number;
  readonly p99Ms: number;
}

export interface SlowPeersResult {
  readonly idle: TrueTimes;
  readonly loaded: TrueTimes;
}

/**
 * Hazard 5: A floods and its client stops reading; B is fed 8 MiB that it never reads; C's `true` goes on. Returns what C
 * took, and calls `measure` while all of that stands.
 */
export async function slowPeersDoNotStopOthers(
  place: Place,
  rounds: number,
  measure: () => void,
): Promise<SlowPeersResult> {
  const { guest } = place;
  const times = async (): Promise<TrueTimes> => {
    const all: number[] = [];
    for (let round = 0; round < rounds; round += 1) all.push(await trueMs(guest));
    return { medianMs: percentile(all, 0.5), p99Ms: percentile(all, 0.99) };
  };
  const idle = await times();
  const flooding = await shellScript(place, "exec cat /dev/zero");
  const deaf = await shellScript(place, "exec sleep 600");
  deaf.stdin.on("error", () => {});
  try {
    await Promise.all([flooding.started, deaf.started]);
    for (let index = 0; index < 128; index += 1) deaf.stdin.write(Buffer.alloc(65_536, 0x61));
    await Bun.sleep(300);
    const loaded = await times();
    measure();
    return { idle, loaded };
  } finally {
    flooding.disconnect();
    deaf.disconnect();
  }
}

/** Hazard 7: a command that is killed, or runs out of time, leaves nothing of its group. */
export async function killLeavesNothing(place: Place, settleMs: number): Promise<void> {
  const { guest } = place;
  const text = "sleep 300.25 & wait";
  const left = async () => {
    const { stdout } = await guest.exec(["sh", "-c", "ps -o args | grep '[s]leep 300.25' | wc -l"]);
    return Number(stdout.toString());
  };
  const psArgs = await guest.exec(["sh", "-c", "ps -o args >/dev/null 2>&1"]);
  expect(psArgs.code).toBe(0);

  const killed = await shellScript(place, text);
  killed.stdout.resume();
  killed.stderr.resume();
  await killed.started;
  await Bun.sleep(settleMs);
  killed.signal(15);
  expect((await killed.exit).code).toBe(143);
  await Bun.sleep(settleMs);
  expect(await left()).toBe(0);

  if (!place.tty) {
    const late = guest.exec(["sh", "-c", text], { timeoutMs: settleMs });
    expect(
      await late.then(
        () => "ended",
        (error: Error) => error.message,
      ),
    ).toContain("ran longer than");
  } else {
    const dropped = await shellScript(place, text);
    dropped.exit.catch(() => {});
    await dropped.started;
    await Bun.sleep(settleMs);
    dropped.disconnect();
  }
  await Bun.sleep(settleMs);
  expect(await left()).toBe(0);
}

/** Hazard 8: the very first command on a pty sees the size that was asked for. */
export async function firstSizeIsRight(guest: Guest, rounds: number): Promise<void> {
  for (let round = 1; round <= rounds; round += 1) {
    const rows = 20 + round;
    const cols = 200 + round;
    const session = await guest.shell({ argv: ["stty", "size"], tty: true, rows, cols });
    const [stdout] = await Promise.all([collect(session.stdout), session.exit]);
    expect(stdout.toString()).toBe(`${rows} ${cols}\r\n`);
  }
}
