import { createExpressions } from '../expression/expressions.js'
import { BodyBuffers } from '../flow/body-buffers.js'
import { closeConnection } from '../flow/verdict.js'
import { systemClock } from '../lib/clock.js'
import { type Geo, SHIPPED } from '../lib/geo.js'
import type { Outbound } from '../lib/http-client/outbound.js'
import { UserAgents } from '../lib/user-agent.js'
import { type Action, resultsOf } from '../policy/action.js'
import { RecentDocuments } from '../policy/document.js'
import type { BaseServices, Counter, PolicyServices, Provided, ServiceKey } from '../policy/services.js'

/**
 * Creates the services of policies; the only place that does. `own`: services of features that this process provides; the
 * others are created by their keys on first use. Throws a RangeError if a service is provided twice.
 */
export function policyServices(base: BaseServices, own: readonly Provided[] = []): PolicyServices {
  const services = new Map<ServiceKey<unknown>, unknown>()
  for (const { key, value } of own) {
    if (services.has(key)) throw new RangeError(`the service ${key.name} is provided twice`)
    services.set(key, value)
  }
  return {
    ...base,
    service<T>(key: ServiceKey<T>): T {
      if (!services.has(key)) services.set(key, key.otherwise(base))
      return services.get(key) as T
    }
  }
}

/** Returns the services of the language when no policy runs: they count and log nothing, and reject reads of data and requests. */
export function offline(actions: readonly Action[]): BaseServices {
  return {
    clock: systemClock,
    expressions: createExpressions({
      results: resultsOf(actions),
      clock: systemClock,
      random: Math.random,
      geo,
      userAgent: new UserAgents()
    }),
    ...unobserved,
    documents: new RecentDocuments(),
    outbound,
    bodies: new BodyBuffers({ total: 0, each: 0, broken: () => closeConnection })
  }
}

const uncounted: Counter = { inc: () => undefined }

/** Services that count and log nothing. */
export const unobserved: Pick<BaseServices, 'meter' | 'log'> = {
  meter: { matched: () => uncounted, decided: () => uncounted, failed: () => uncounted, counter: () => uncounted },
  log: { debug: () => undefined, warn: () => undefined }
}

/** Facts of the database that is installed with the program, without reading its megabytes. */
const geo: Geo = {
  covers: SHIPPED,
  prepare: () => undefined,
  lookup: () => {
    throw new TypeError('a document that is only checked looks up no address')
  }
}

const outbound: Outbound = {
  request: () => {
    throw new TypeError('a document that is only checked makes no request')
  },
  close: () => undefined
}
