import { createExpressions } from '../expression/expressions.js'
import { KeySetPlaces } from '../features/jwt/key-sources.js'
import { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { BodyBuffers } from '../flow/body-buffers.js'
import { closeConnection } from '../flow/verdict.js'
import { systemClock } from '../lib/clock.js'
import type { Geo } from '../lib/geo.js'
import { UserAgents } from '../lib/user-agent.js'
import { type Action, resultsOf } from '../policy/action.js'
import { RecentDocuments } from '../policy/document.js'
import type { Counter, PolicyServices } from '../policy/services.js'

/** The least that a limiter's table takes; nothing is ever counted in it. */
const LEAST_BUDGET = 256 * 1024

/** Facts of the database that is installed with the program, without reading its megabytes: no address is looked up. */
const geo: Geo = {
  covers: { country: true, city: false, as: false },
  lookup: () => {
    throw new TypeError('a document that is only checked looks up no address')
  }
}

/** What a compiler of policies needs where no policy will run: nothing counts, logs, or reads data. */
export function offlineServices(actions: readonly Action[]): PolicyServices {
  const counter: Counter = { inc: () => undefined }
  const log = { debug: () => undefined, warn: () => undefined }
  const outbound = {
    request: () => {
      throw new TypeError('a document that is only checked makes no request')
    },
    close: () => undefined
  }
  const limit = { admitted: counter, refused: counter, wouldRefuse: counter }
  return {
    clock: systemClock,
    expressions: createExpressions({
      results: resultsOf(actions),
      clock: systemClock,
      random: Math.random,
      geo,
      userAgent: new UserAgents()
    }),
    limiter: new LimiterTable({ budgetBytes: LEAST_BUDGET, clock: systemClock }),
    meter: { matched: () => counter, decided: () => counter, failed: () => counter, limit: () => limit },
    log,
    rateLimitHeaders: 'none',
    documents: new RecentDocuments(),
    outbound,
    keySets: new KeySetPlaces({ clock: systemClock, log, outbound }),
    keyFolders: undefined,
    bodies: new BodyBuffers({ total: 0, each: 0, broken: () => closeConnection })
  }
}
