import type { ProcessNumbers } from '../control/calls.js'
import type { WafRules } from '../features/waf/rules.js'
import { packageVersion } from '../lib/files.js'
import { timestampText } from '../lib/json.js'
import { delaysInMilliseconds } from '../telemetry/process-health.js'
import type { Foundation } from './foundation.js'

/** Returns a function that reports the statistics of this process. `rules`: those of the firewall. */
export function ownNumbers({ clock, loop, metrics }: Foundation, rules: WafRules | undefined): () => ProcessNumbers {
  const version = packageVersion()
  const startedAt = timestampText(clock.wall())
  return () => {
    const { rss, heapUsed, external } = process.memoryUsage()
    return {
      version,
      startedAt,
      connections: metrics.connections.value,
      loopDelay: delaysInMilliseconds(loop.delays),
      memory: { rss, heapUsed, external },
      rules: rules === undefined ? null : { signature: rules.current.signature, digest: rules.current.digest }
    }
  }
}
