import { afterEach, beforeEach, describe, expect, test } from "bun:test";
import {
  chownSync,
  existsSync,
  lstatSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { type Header, pack } from "tar-stream";
import { applyLayer } from "#agent/console/layer/apply.ts";
import { writeLayer } from "#agent/console/layer/write.ts";
import { runRestore } from "#agent/console/restore.ts";
import { getXattr, makeNode, setXattr } from "#sys/file-attributes.ts";

let directory: string;
beforeEach(() => {
  directory = mkdtempSync(join(tmpdir(), "vmapp-layer-"));
  for (const name of ["root", "outside"]) mkdirSync(join(directory, name));
});
afterEach(() => rmSync(directory, { recursive: true, force: true }));

const at = (name: string) => join(directory, name);

type Entry = Partial<Header> & { name: string; body?: string };

async function layerOf(...entries: Entry[]): Promise<Buffer> {
  const archive = pack();
  const chunks: Buffer[] = [];
  archive.on("data", (chunk) => void chunks.push(chunk as Buffer));
  const ended = new Promise<void>((resolve) => archive.on("end", () => resolve()));
  for (const { body, ...header } of entries) {
    if (body === undefined) archive.entry(header);
    else archive.entry(header, body);
  }
  archive.finalize();
  await ended;
  return Buffer.concat(chunks);
}

const apply = (layer: Buffer, onto: "upper" | "merged" = "merged") =>
  applyLayer({ layer: [layer], root: at("root"), onto });

async function write(upper: string): Promise<Buffer> {
  const layer = await writeLayer({ upper, excluded: [], limit: 64 * 1024 * 1024 });
  return Buffer.from(layer.join());
}

/** overlayfs's marks are device nodes and trusted attributes */
const privileged = process.getuid?.() === 0;

describe("a layer that would leave its root is refused, and nothing is written outside", () => {
  const cases: readonly [string, Entry[]][] = [
    ["an absolute name", [{ name: "/etc/planted", body: "x" }]],
    ["a name that climbs", [{ name: "a/../../outside/planted", body: "x" }]],
    ["a directory that climbs", [{ name: "../outside/planted", type: "directory" }]],
    ["a whiteout that climbs", [{ name: "../outside/.wh.kept", body: "" }]],
    ["a whiteout of the directory above", [{ name: "a/.wh...", body: "" }]],
    ["a whiteout of the directory itself", [{ name: "a/.wh..", body: "" }]],
    ["a whiteout of nothing", [{ name: "a/.wh.", body: "" }]],
    [
      "a file through a link",
      [
        { name: "way", type: "symlink", linkname: "../outside" },
        { name: "way/planted", body: "x" },
      ],
    ],
    [
      "a whiteout through a link",
      [
        { name: "way", type: "symlink", linkname: "../outside" },
        { name: "way/.wh.kept", body: "" },
      ],
    ],
    ["a hard link to an absolute name", [{ name: "stolen", type: "link", linkname: "/etc/passwd" }]],
    ["a hard link that climbs", [{ name: "stolen", type: "link", linkname: "../outside/kept" }]],
    [
      "a hard link through a link",
      [
        { name: "way", type: "symlink", linkname: "../outside" },
        { name: "stolen", type: "link", linkname: "way/kept" },
      ],
    ],
  ];
  for (const [name, entries] of cases) {
    test(name, async () => {
      writeFileSync(at("outside/kept"), "kept");
      mkdirSync(at("root/a"));
      await expect(apply(await layerOf(...entries))).rejects.toThrow();
      expect(readdirSync(at("outside"))).toEqual(["kept"]);
      expect(existsSync(at("root/stolen"))).toBe(false);
      expect(existsSync(at("root/a"))).toBe(true);
      expect(statSync(at("outside/kept")).nlink).toBe(1);
    });
  }

  test("a file that a link leads to is replaced and not written through", async () => {
    writeFileSync(at("outside/kept"), "kept");
    symlinkSync("../outside/kept", at("root/link"));
    await apply(await layerOf({ name: "link", body: "new" }));
    expect(readFileSync(at("outside/kept"), "utf8")).toBe("kept");
    expect(lstatSync(at("root/link")).isFile()).toBe(true);
  });
});

describe("a broken layer is refused with its entry named", () => {
  test("cut short, garbage, an unknown type, a body that ends too early", async () => {
    const whole = await layerOf({ name: "file", body: "x".repeat(5000) });
    const typed = Buffer.from(await layerOf({ name: "odd", body: "" }));
    typed[156] = "S".charCodeAt(0);
    let sum = 256;
    for (let index = 0; index < 512; index++) sum += index >= 148 && index < 156 ? 0 : (typed[index] as number);
    typed.write(`${sum.toString(8).padStart(6, "0")}\0 `, 148, "latin1");
    await expect(apply(whole.subarray(0, 3000))).rejects.toThrow();
    await expect(apply(Buffer.alloc(2048, "no tar"))).rejects.toThrow();
    await expect(apply(typed)).rejects.toThrow("odd: an entry of the unknown type");
  });

  test("a sparse file whose map lies", async () => {
    const pax = {
      "GNU.sparse.major": "1",
      "GNU.sparse.minor": "0",
      "GNU.sparse.name": "s",
      "GNU.sparse.realsize": "100",
    };
    for (const map of ["1\n90\n20\n", "2\n50\n10\n40\n5\n", "x\n", "1\n-5\n1\n", "9\n0\n1\n"]) {
      await expect(
        apply(await layerOf({ name: "s", pax, body: map.padEnd(512, "\0") + "data".repeat(10) })),
      ).rejects.toThrow(/^s: /);
    }
    await apply(await layerOf({ name: "fine", body: "x" }));
    expect(readFileSync(at("root/fine"), "utf8")).toBe("x");
  });
});

describe("deletions", () => {
  const tree = () => {
    mkdirSync(at("root/dir/inner"), { recursive: true });
    for (const name of ["gone", "dir/old", "dir/inner/deep"]) writeFileSync(at(`root/${name}`), "base");
  };

  test("in either form remove what they name from a whole tree", async () => {
    tree();
    await apply(
      await layerOf(
        { name: ".wh.gone", body: "" },
        { name: "dir/inner", type: "character-device", devmajor: 0, devminor: 0 },
        { name: "dir/new", body: "new" },
      ),
    );
    expect(readdirSync(at("root"))).toEqual(["dir"]);
    expect(readdirSync(at("root/dir")).sort()).toEqual(["new", "old"]);
  });

  test("of all that a directory had leave what the layer puts there", async () => {
    tree();
    await apply(
      await layerOf(
        { name: "dir", type: "directory" },
        { name: "dir/.wh..wh..opq", body: "" },
        { name: "dir/new", body: "" },
      ),
    );
    expect(readdirSync(at("root/dir"))).toEqual(["new"]);
  });

  test.skipIf(!privileged)(
    "in either form become overlayfs's own marks in a bare upper directory, and come out as whiteouts",
    async () => {
      await apply(
        await layerOf(
          { name: "a/.wh.gone", body: "" },
          { name: "b", type: "character-device", devmajor: 0, devminor: 0 },
          { name: "dir/.wh..wh..opq", body: "" },
        ),
        "upper",
      );
      for (const name of ["root/a/gone", "root/b"]) {
        expect(lstatSync(at(name)).isCharacterDevice()).toBe(true);
        expect(lstatSync(at(name)).rdev).toBe(0);
      }
      expect(getXattr(Buffer.from(at("root/dir")), "trusted.overlay.opaque")).toEqual(new Uint8Array([0x79]));
      writeFileSync(at("layer.tar"), await write(at("root")));
      const names = Bun.spawnSync(["tar", "tf", at("layer.tar")])
        .stdout.toString()
        .trim()
        .split("\n");
      expect(names).toEqual(["a", "a/.wh.gone", ".wh.b", "dir", "dir/.wh..wh..opq"]);
    },
  );
});

test.skipIf(!privileged)("owners and device numbers come back whole, however large", async () => {
  const ids = [0, 0o777777, 0o777777 + 1, 0o7777777, 0o7777777 + 1, 0xfffffffe];
  for (const id of ids) {
    writeFileSync(at(`root/${id}`), "");
    chownSync(at(`root/${id}`), id, 0xfffffffe - id);
  }
  makeNode(Buffer.from(at("root/device")), { type: "block", mode: 0o600, major: 4095, minor: 0xfffff });
  const layer = await write(at("root"));
  mkdirSync(at("again"));
  await applyLayer({ layer: [layer], root: at("again"), onto: "upper" });
  for (const id of ids) expect(statSync(at(`again/${id}`))).toMatchObject({ uid: id, gid: 0xfffffffe - id });
  expect(lstatSync(at("again/device")).rdev).toBe(lstatSync(at("root/device")).rdev);
});

describe.skipIf(!privileged)("a layer that another program wrote", () => {
  test("is restored from GNU tar: long names, holes, links, owners, attributes", async () => {
    mkdirSync(at("src"));
    const long = "n".repeat(150);
    const script = `
      mkdir ${long}; echo deep > ${long}/${long}; ln ${long}/${long} hard; ln -s ${long} soft
      truncate -s 3G sparse; echo end >> sparse; chown 12345:54321 hard; chmod 2750 hard
      touch -d '2001-02-03 04:05:06.7' hard`;
    Bun.spawnSync(["sh", "-ec", script], { cwd: at("src") });
    for (const format of ["gnu", "pax"]) {
      rmSync(at("root"), { recursive: true });
      mkdirSync(at("root"));
      const sparse = format === "pax" ? ["--sparse"] : ["--exclude=sparse"];
      const made = Bun.spawnSync(["tar", "-C", at("src"), `--format=${format}`, ...sparse, "-cf", at("gnu.tar"), "."]);
      expect(made.exitCode).toBe(0);
      await runRestore([at("gnu.tar"), at("root")]);
      expect(readFileSync(at(`root/${long}/${long}`), "utf8")).toBe("deep\n");
      const hard = lstatSync(at("root/hard"));
      expect([hard.uid, hard.gid, hard.mode & 0o7777, hard.nlink]).toEqual([12345, 54321, 0o2750, 2]);
      expect(Math.floor(hard.mtimeMs / 1000)).toBe(981173106);
      expect(lstatSync(at("root/soft")).isSymbolicLink()).toBe(true);
    }
    const sparse = statSync(at("root/sparse"));
    expect(sparse.size).toBe(3 * 1024 ** 3 + 4);
    expect(sparse.blocks).toBeLessThan(100);
  });

  test("is restored from a disk, whose end is padded with zeroes", async () => {
    const layer = await layerOf({ name: "file", body: "x" });
    writeFileSync(at("disk"), Buffer.concat([layer, Buffer.alloc(1024 * 1024)]));
    await runRestore([at("disk"), at("root")]);
    expect(readFileSync(at("root/file"), "utf8")).toBe("x");
  });
});

test.skipIf(!privileged)(
  "extended attributes survive: file capabilities, any bytes, any name; overlayfs's own do not leave",
  async () => {
    mkdirSync(at("upper"));
    writeFileSync(at("upper/file"), "x");
    const file = Buffer.from(at("upper/file"));
    const capability = Buffer.from("0100000200200000000000000000000000000000", "hex");
    setXattr(file, "security.capability", capability);
    setXattr(file, "user.any=name %", new Uint8Array([0, 10, 255, 61]));
    setXattr(file, "user.empty", new Uint8Array(0));
    setXattr(file, "trusted.overlay.origin", new Uint8Array([1]));
    await apply(await write(at("upper")), "upper");
    const copy = Buffer.from(at("root/file"));
    expect(Buffer.from(getXattr(copy, "security.capability") ?? "")).toEqual(capability);
    expect(getXattr(copy, "user.any=name %")).toEqual(new Uint8Array([0, 10, 255, 61]));
    expect(getXattr(copy, "user.empty")).toEqual(new Uint8Array(0));
    expect(getXattr(copy, "trusted.overlay.origin")).toBeUndefined();
  },
);

test.skipIf(!privileged)(
  "a file whose content is still in the base cannot be carried, and the error names it",
  async () => {
    mkdirSync(at("upper"));
    writeFileSync(at("upper/moved"), "");
    setXattr(Buffer.from(at("upper/moved")), "trusted.overlay.metacopy", new Uint8Array(0));
    await expect(write(at("upper"))).rejects.toThrow("moved: its content is in the base image");
  },
);

test("restore says what it wants when it is called wrongly", async () => {
  await expect(runRestore([])).rejects.toThrow("expected LAYER UPPER");
  await expect(runRestore(["/no/such/layer", at("root")])).rejects.toThrow();
  await expect(runRestore(["/no/such/layer", at("no-such-directory")])).rejects.toThrow();
});
