/** Measuring beside peers in one run: rounds are interleaved, so that whatever else the machine does hits all alike. */

export interface Peer {
  readonly name: string;
  readonly value: number;
  /** what ours must be, as a multiple of this peer's value */
  readonly aim?: { readonly atLeast: number } | { readonly atMost: number };
}

export interface Row {
  readonly name: string;
  readonly unit: string;
  readonly ours: number;
  readonly peers: readonly Peer[];
}

export interface ContractBench {
  readonly contract: string;
  readonly rows: readonly Row[];
  /** what the reader should know: peers that were left out, further figures */
  readonly notes: readonly string[];
}

/** One thing to measure; each call returns one value. */
export interface Contender {
  readonly name: string;
  readonly measure: () => Promise<number>;
  readonly aim?: Peer["aim"];
}

export function median(values: readonly number[]): number {
  const sorted = [...values].sort((a, b) => a - b);
  return sorted[sorted.length >> 1] ?? Number.NaN;
}

/** Measures ours and its peers in turn, after one round that warms up and is not counted. */
export async function compare({
  name,
  unit,
  rounds,
  ours,
  peers,
}: {
  name: string;
  unit: string;
  rounds: number;
  ours: () => Promise<number>;
  peers: readonly Contender[];
}): Promise<Row> {
  const contenders = [ours, ...peers.map(({ measure }) => measure)];
  const values: number[][] = contenders.map(() => []);
  for (let round = 0; round <= rounds; round += 1) {
    for (const [index, measure] of contenders.entries()) {
      const value = await measure();
      if (round > 0) values[index]?.push(value);
    }
  }
  return {
    name,
    unit,
    ours: median(values[0] ?? []),
    peers: peers.map(({ name: peer, aim }, index) => ({
      name: peer,
      value: median(values[index + 1] ?? []),
      ...(aim && { aim }),
    })),
  };
}

/** One line a peer, columns aligned. Returns the text and how many aims were missed. */
export function formatTable({ contract, rows, notes }: ContractBench): { text: string; missed: number } {
  const lines: string[][] = [["", "unit", "ours", "peer", "", "ratio", "aim", ""]];
  let missed = 0;
  for (const { name, unit, ours, peers } of rows) {
    for (const [index, { name: peer, value, aim }] of peers.entries()) {
      const ratio = ours / value;
      const met = aim === undefined || ("atLeast" in aim ? ratio >= aim.atLeast : ratio <= aim.atMost);
      if (!met) missed += 1;
      const bound = aim === undefined ? "" : "atLeast" in aim ? `≥ ${aim.atLeast}` : `≤ ${aim.atMost}`;
      const verdict = aim === undefined ? "" : met ? "met" : "MISSED";
      const first = index === 0;
      lines.push([
        first ? name : "",
        first ? unit : "",
        first ? rounded(ours) : "",
        peer,
        rounded(value),
        ratio.toFixed(2),
        bound,
        verdict,
      ]);
    }
    if (peers.length === 0) lines.push([name, unit, rounded(ours), "", "", "", "", ""]);
  }
  const widths = lines.reduce<number[]>((all, line) => line.map((cell, at) => Math.max(cell.length, all[at] ?? 0)), []);
  const right = new Set([2, 4, 5]);
  const table = lines.map((line) =>
    line
      .map((cell, at) => (right.has(at) ? cell.padStart(widths[at] ?? 0) : cell.padEnd(widths[at] ?? 0)))
      .join("  ")
      .trimEnd(),
  );
  return { text: [contract, ...table, ...notes.map((note) => `  ${note}`)].join("\n"), missed };
}

function rounded(value: number): string {
  return value >= 100 ? value.toFixed(0) : value >= 10 ? value.toFixed(1) : value.toFixed(2);
}
