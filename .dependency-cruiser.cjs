/**
 * Who may import whom. `to` lists what a folder may NOT reach; everything of ours that is not
 * named in its `allowed` set is refused.
 */
const allowed = {
  protocol: [],
  sys: [],
  sdk: ["protocol"],
  agent: ["protocol", "sys"],
  init: ["protocol", "sys", "agent/main\\.ts", "agent/shell/account\\.ts", "agent/console/(main|restore)\\.ts"],
  image: ["protocol"],
  "host-client": ["protocol", "sys/vsock\\.ts", "image"],
};
const folders = Object.keys(allowed).concat("test", "examples");

const rules = Object.entries(allowed).map(([folder, targets]) => ({
  name: `${folder}-imports`,
  severity: "error",
  comment: `${folder}/ may import ${targets.length === 0 ? "nothing of ours" : targets.join(", ")}`,
  from: { path: `^${folder}/` },
  to: {
    path: `^(${folders.join("|")})/`,
    pathNot: [folder, ...targets].map((target) => `^${target}${target.endsWith(".ts") ? "$" : "/"}`),
  },
}));

module.exports = {
  forbidden: [
    ...rules,
    { name: "no-circular", severity: "error", from: {}, to: { circular: true } },
    {
      name: "not-to-unresolvable",
      severity: "error",
      from: {},
      to: { couldNotResolve: true, pathNot: "^bun(:|$)" },
    },
    {
      name: "no-syscalls-outside-sys",
      severity: "error",
      comment: "bun:ffi belongs to sys/",
      from: { pathNot: "^(sys|test)/" },
      to: { path: "^bun:ffi$" },
    },
    {
      name: "protocol-is-pure",
      severity: "error",
      comment: "no socket, no file, no process in protocol/",
      from: { path: "^protocol/" },
      to: { path: "^(node:)?(net|fs|fs/promises|child_process|dgram|http|https|os)$", dependencyTypes: ["core"] },
    },
  ],
  options: {
    doNotFollow: { path: "node_modules" },
    tsConfig: { fileName: "tsconfig.json" },
    tsPreCompilationDeps: true,
    enhancedResolveOptions: { exportsFields: ["exports"], conditionNames: ["import", "require", "node", "default"] },
  },
};
