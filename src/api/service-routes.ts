import type { Account } from './account.js'
import { callOf, queryOf, type Router, route } from './calls.js'
import type { Degradation, Readiness } from './readiness.js'

/** For supervisors: does the process live and serve? No key. */
export function addHealth(router: Router, readiness: () => Readiness): void {
  route(router, 'GET', '/healthz', { open: true }, async (_request, reply) => {
    const status = readiness()
    return reply
      .code(serves(status) ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status: status === 'ready' ? 'ok' : status })
  })
}

/** Whether traffic should come here, and what is not as it should be; no key, so only words that say nothing of the account. */
export function addReadiness(router: Router, readiness: () => Readiness, degradation: () => Degradation): void {
  route(router, 'GET', '/readyz', { open: true }, async (_request, reply) => {
    const status = readiness()
    const { reasons, revisionsBehind } = degradation()
    return reply
      .code(serves(status) ? 200 : 503)
      .header('cache-control', 'no-store')
      .send({ status, reasons, revisions_behind: revisionsBehind })
  })
}

function serves(status: Readiness): boolean {
  return status === 'ready' || status === 'degraded'
}

/** The text format of Prometheus. */
export const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

/** The metrics in the text format of Prometheus, whose scrapers send a key but no version. */
export function addMetrics(router: Router, metrics: () => Promise<string>): void {
  route(router, 'GET', '/metrics', { unversioned: true }, async (_request, reply) =>
    reply.type(METRICS_TYPE).send(await metrics())
  )
}

/** The description of the API; it says nothing of this account, and tools fetch it without a key. */
export function addDescription(router: Router, document: () => object): void {
  let text: string | undefined
  route(router, 'GET', '/openapi.json', { open: true }, async (_request, reply) => {
    text ??= JSON.stringify(document())
    return reply.type('application/json; charset=utf-8').header('cache-control', 'no-cache').send(text)
  })
}

/** What each process of the service serves. */
export function addProcesses(router: Router, account: Account, baseUrl: () => string): void {
  route(router, 'GET', '/processes', {}, async (request, reply) => {
    callOf(request)
    queryOf(request, [])
    const processes = (await account.processes()).map(
      ({ id, appliedRevision, lastError, divergedAt, seenAt, goneSince, self }) => {
        return {
          id,
          applied_revision: appliedRevision,
          last_error: lastError,
          diverged_at: divergedAt,
          seen_at: seenAt,
          gone_since: goneSince,
          self
        }
      }
    )
    return reply
      .header('service-revision', String(account.revision))
      .send({ processes, uri: `${baseUrl()}/processes`, next_page_uri: null })
  })
}
