import type { FastifyReply } from 'fastify'
import { count, listOf, object, text, type ValueOf, words } from '../schema/answer.js'
import { defineRoute, type RouteGroup } from './define-route.js'

/**
 * Readiness of the process. /healthz and /readyz respond with 200 if it is `ready` or `degraded` (it serves, with problems),
 * otherwise with 503.
 */
export type Readiness = 'starting' | 'ready' | 'degraded' | 'draining'

/** Why a process that serves is degraded. */
export interface Degradation {
  /** Reasons from a closed set of words, in their order; empty if not degraded. */
  readonly reasons: readonly string[]
  /** Number of revisions of the store that are not applied yet. */
  readonly revisionsBehind: number
}

/** Reason of a degraded state, with its meaning. */
interface Reason {
  readonly name: string
  readonly means: string
}

/** Health and metrics of the process. */
export interface HealthService {
  readiness(): Readiness
  degradation(): Degradation
  /** Returns the metrics in the text format of Prometheus. */
  metrics(): Promise<string>
}

/** The text format of Prometheus. */
const METRICS_TYPE = 'text/plain; version=0.0.4; charset=utf-8'

const SERVES = 'It serves; degraded: not as it should.'
const SHUT = 'It does not serve yet, or ends.'

/** Without a key: its words reveal nothing about the account. */
const readHealth = defineRoute({
  method: 'GET',
  path: '/healthz',
  id: 'health_get',
  summary: 'Does the process live and serve? Needs no key.',
  access: 'open',
  lenient: true,
  answers: SERVES,
  answer: object({ status: words(['ok', 'degraded']) }),
  otherwise: { status: 503, answers: SHUT, answer: object({ status: words(['starting', 'draining']) }) },
  run(_asked, health: HealthService) {
    const status = health.readiness()
    return { status: status === 'ready' ? ('ok' as const) : status }
  },
  send: (reply, health) => sendHealth(reply, health)
})

const readMetrics = defineRoute({
  method: 'GET',
  path: '/metrics',
  id: 'metrics_get',
  summary: 'The metrics of the process, in the text format of Prometheus.',
  access: 'unversioned',
  lenient: true,
  answers: 'The metrics.',
  answer: text,
  media: METRICS_TYPE,
  run: (_asked, health: HealthService) => health.metrics(),
  send: (reply, metrics) => reply.type(METRICS_TYPE).send(metrics)
})

/** Returns the routes for supervisors, load balancers and scrapers. `reasons`: those of a degraded state, for the description. */
export function healthRoutes(served: {
  readonly metrics: boolean
  readonly reasons?: readonly Reason[] | undefined
}): RouteGroup<HealthService> {
  return {
    tag: 'Health',
    description: 'How the process that answers is, for supervisors and load balancers.',
    revision: false,
    routes: [readHealth, readReadiness(served.reasons), ...(served.metrics ? [readMetrics] : [])]
  }
}

function readReadiness(reasons: readonly Reason[] | undefined) {
  const means = (reasons ?? []).map(({ name, means }) => ` ${name}: ${means}.`).join('')
  const reason = reasons === undefined ? text : words(reasons.map(({ name }) => name))
  const details = {
    reasons: listOf(reason, `Why it is degraded; empty: it is not.${means}`),
    revisions_behind: { ...count, description: 'How many revisions of the store it has not applied in time.' }
  }
  const ready = object({ status: words(['ready', 'degraded']), ...details })
  const shut = object({ status: words(['starting', 'draining']), ...details })
  return defineRoute({
    method: 'GET',
    path: '/readyz',
    id: 'readiness_get',
    summary: 'Should traffic come here, and what is wrong? Needs no key.',
    access: 'open',
    lenient: true,
    answers: SERVES,
    answer: ready,
    otherwise: { status: 503, answers: SHUT, answer: shut },
    run(_asked, health: HealthService): ValueOf<typeof ready> | ValueOf<typeof shut> {
      const { reasons, revisionsBehind } = health.degradation()
      return { status: health.readiness(), reasons, revisions_behind: revisionsBehind }
    },
    send: (reply, readiness) => sendHealth(reply, readiness)
  })
}

function sendHealth(reply: FastifyReply, health: { readonly status: Readiness | 'ok' }): FastifyReply {
  const shut = health.status === 'starting' || health.status === 'draining'
  return reply
    .code(shut ? 503 : 200)
    .header('cache-control', 'no-store')
    .send(health)
}
