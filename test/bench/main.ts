/** `make bench [CONTRACT…]`: measures each contract beside its peers and prints one table a contract. */
import { benchBridge } from "./bridge.ts";
import { benchConsole } from "./console.ts";
import { benchControl } from "./control.ts";
import { type ContractBench, formatTable } from "./harness.ts";
import { benchShell } from "./shell.ts";

const benches: Readonly<Record<string, () => Promise<ContractBench>>> = {
  shell: benchShell,
  console: benchConsole,
  control: benchControl,
  bridge: benchBridge,
};

const wanted = process.argv.slice(2);
const unknown = wanted.filter((name) => benches[name] === undefined);
if (unknown.length > 0) {
  console.error(`bench: there is no bench ${unknown.join(", ")}; there are: ${Object.keys(benches).join(", ")}`);
  process.exit(2);
}
let missed = 0;
for (const [name, bench] of Object.entries(benches)) {
  if (wanted.length > 0 && !wanted.includes(name)) continue;
  const table = formatTable(await bench());
  console.log(`${table.text}\n`);
  missed += table.missed;
}
if (missed > 0) console.log(`${missed} aims missed`);
