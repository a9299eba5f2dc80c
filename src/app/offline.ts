import { createExpressions } from '../expression/expressions.js'
import { KeySetPlaces } from '../features/jwt/key-sources.js'
import { LimiterTable } from '../features/rate-limit/limiter/table.js'
import { BodyBuffers } from '../flow/body-buffers.js'
import { closeConnection } from '../flow/verdict.js'
import { systemClock } from '../lib/clock.js'
import type { Geo } from '../lib/geo.js'
import { UserAgents } from '../lib/user-agent.js'
import { type Action, resultsOf } from '../policy/action.js'
import { compilePolicy } from '../policy/compile.js'
import { type PolicyDocument, RecentDocuments } from '../policy/document.js'
import { formatPath, type Problem } from '../policy/problems.js'
import type { Counter, PolicyServices } from '../policy/services.js'
import type { PolicyCheck } from '../schema/field.js'

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

/**
 * Checks policy documents with the compiler that runs them, so that a document that is taken can run. Each error is a
 * problem whose `details` have its place in the text.
 */
export function policyCheck(services: PolicyServices, actions: readonly Action[]): PolicyCheck {
  const problemsOf = policyProblems(services, actions)
  return (text, layer) => {
    const errors = problemsOf(text, layer).filter(({ severity }) => severity === 'error')
    return errors.length === 0 ? undefined : errors.map(refusal)
  }
}

/** Errors and warnings of policy documents with their places, as the compiler that runs them finds them. */
export function policyProblems(
  services: PolicyServices,
  actions: readonly Action[]
): (text: string, layer: 'http' | 'tcp') => readonly Problem[] {
  return (text, layer) => {
    const { problems } = compilePolicy(text, {
      owner: 'check',
      services,
      // Nothing is kept: counters belong to the policies that run.
      keep: { keep: (key, make) => make(JSON.stringify(key)) },
      actions,
      unavailable: 'refuse',
      carrier: layer
    })
    if (problems.some(({ severity }) => severity === 'error')) return problems
    return [...problems, ...wrongLayer(services.documents.read(text, layer).document, layer)]
  }
}

function refusal({ code, message, path, line, column }: Omit<Problem, 'severity' | 'length'>) {
  return { code: `POLICY_${code}`, message, details: { path, line: String(line), column: String(column) } }
}

/** HTTPS edges have no `on_tcp_connect`, TCP edges nothing else. */
function wrongLayer(document: PolicyDocument, layer: 'http' | 'tcp'): Problem[] {
  for (const [phase, [rule]] of Object.entries(document.phases)) {
    if (rule === undefined || (phase === 'on_tcp_connect') === (layer === 'tcp')) continue
    const message = `${phase} does not run on ${layer === 'tcp' ? 'a TCP edge' : 'a route of an HTTPS edge'}`
    const place = document.source.place(rule.actions[0]?.typeNode.span.start ?? 0)
    return [{ severity: 'error', code: 'PHASE', message, path: formatPath(rule.path), ...place, length: phase.length }]
  }
  return []
}
