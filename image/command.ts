/** Runs the external programs of the image build. */

/** An external program could not be started or failed. The message quotes what it wrote. */
export class CommandError extends Error {
  override readonly name = "CommandError";
}

export interface CommandOptions {
  readonly cwd?: string;
  /** replaces the environment; default: this process's own */
  readonly env?: Record<string, string | undefined>;
  readonly stdin?: string;
  /** lets the program write to the terminal (progress of long work); its output is then not returned */
  readonly visible?: boolean;
}

const quotedOutputCharacters = 4000;

/** Runs a program to its end and returns its standard output as text. Throws {@link CommandError} unless it exits 0. */
export async function runCommand(argv: readonly string[], options: CommandOptions = {}): Promise<string> {
  const output = options.visible === true ? "inherit" : "pipe";
  let child: ReturnType<typeof spawn>;
  try {
    child = spawn(argv, options, output);
  } catch (cause) {
    throw new CommandError(`cannot start ${argv[0]}: ${cause instanceof Error ? cause.message : cause}`, { cause });
  }
  const text = (stream: ReadableStream<Uint8Array> | undefined) => (stream ? new Response(stream).text() : "");
  const [stdout, stderr, code] = await Promise.all([text(child.stdout), text(child.stderr), child.exited]);
  if (code === 0) return stdout;
  const ending = child.signalCode ? `was killed by ${child.signalCode}` : `exited with status ${code}`;
  const said = (stderr.trim() || stdout.trim()).slice(-quotedOutputCharacters);
  throw new CommandError(`${argv.join(" ")} ${ending}${said ? `:\n${said}` : ""}`);
}

function spawn(argv: readonly string[], options: CommandOptions, output: "inherit" | "pipe") {
  const { stdin } = options;
  return Bun.spawn([...argv], {
    stdin: stdin === undefined ? "ignore" : new TextEncoder().encode(stdin),
    stdout: output,
    stderr: output,
    env: options.env ?? process.env,
    ...(options.cwd === undefined ? {} : { cwd: options.cwd }),
  });
}
