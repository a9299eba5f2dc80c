import type { Host } from '../../app/foundation.js'
import type { ProcessLog } from '../../cli/log.js'
import { processorsOfProcess } from '../../lib/processors.js'
import type { Options } from '../../options/options.js'
import { MOST_SERVING } from './threads.js'
import { withoutThreads } from './without-threads.js'

/** First major version of Node that passes sockets to other threads. */
const GIVES_SOCKETS = 24

/** Returns the worker threads that the option `workers` asks for; undefined if one thread carries all traffic; logs the reason if that is not what the option says. */
export async function wantedThreads(options: Options, { logger, output, lines }: ProcessLog): Promise<Host['threads']> {
  const { workers } = options
  if (workers === 0) return undefined
  const { node } = process.versions
  if (Number(node.split('.')[0]) < GIVES_SOCKETS) {
    const message = `Node ${node} does not support workers: one thread handles all traffic; use Node ${GIVES_SOCKETS} or newer, or set workers to 0`
    logger.warn({ option: workers }, message)
    return undefined
  }
  if (workers !== 'auto') return { size: workers, lines, lost: (count) => output.lost(count) }
  const reasons = withoutThreads(options)
  if (reasons.length > 0) {
    logger.warn({ reasons }, 'one thread handles all traffic: these options do not support workers')
    return undefined
  }
  const size = Math.min(await processorsOfProcess(), MOST_SERVING)
  // One thread more than the one that there is gains nothing.
  return size === 1 ? undefined : { size, lines, lost: (count) => output.lost(count) }
}
