import type { ProcessNumbers } from '../control/calls.js'
import { packageVersion } from '../lib/files.js'
import { timestampText } from '../lib/json.js'
import type { Foundation } from './foundation.js'

const MILLISECONDS = 1_000

/** Returns a function that reports the statistics of this process. */
export function ownNumbers({ clock, loop, metrics }: Foundation): () => ProcessNumbers {
  const version = packageVersion()
  const startedAt = timestampText(clock.wall())
  const delay = (seconds: number) => Math.round(seconds * MILLISECONDS * 1_000) / 1_000
  return () => {
    const { p50, p99, max } = loop.delays
    const { rss, heapUsed, external } = process.memoryUsage()
    return {
      version,
      startedAt,
      connections: metrics.connections.value,
      loopDelay: { p50: delay(p50), p99: delay(p99), max: delay(max) },
      memory: { rss, heapUsed, external }
    }
  }
}
