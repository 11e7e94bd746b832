/** The agent protects itself from the OOM killer; what it starts must not inherit that. */
import { readFileSync, writeFileSync } from "node:fs";

const path = "/proc/self/oom_score_adj";
const neutral = "0";

/** the agent's own score, known from the first command on */
let own: string | undefined;

/**
 * Runs `fork` with a neutral score. Corrected afterwards, at the child alone, it would come too late for what the child
 * has forked by then.
 */
export function withNeutralOomScore<T>(fork: () => T): T {
  own ??= readFileSync(path, "latin1").trim();
  if (own === neutral) return fork();
  writeFileSync(path, neutral);
  try {
    return fork();
  } finally {
    try {
      writeFileSync(path, own);
    } catch {
      // Not privileged: somebody else's protection is lost, rather than handed on.
      own = neutral;
    }
  }
}
