import { offline, policyServices } from '../../src/app/services.js'
import { createExpressions } from '../../src/expression/expressions.js'
import { limiter, rateLimitHeaders } from '../../src/features/rate-limit/feature.js'
import { LimiterTable } from '../../src/features/rate-limit/limiter/table.js'
import { actions } from '../../src/features/registry.js'
import { BodyBuffers } from '../../src/flow/body-buffers.js'
import type { Flow, Phase } from '../../src/flow/flow.js'
import { refuse, type Verdict } from '../../src/flow/verdict.js'
import { systemClock } from '../../src/lib/clock.js'
import { createOutbound } from '../../src/lib/http-client/outbound.js'
import { resultsOf } from '../../src/policy/action.js'
import { compilePolicy } from '../../src/policy/compile.js'
import { keyFolders } from '../../src/policy/key-files.js'
import type { Problem } from '../../src/policy/problems.js'
import { type BaseServices, type PolicyServices, type Provided, provide } from '../../src/policy/services.js'

/** A clock that stands until a test moves it. */
class TestClock {
  now = 1_000_000
  monotonic = () => this.now
  wall = () => Date.UTC(2026, 0, 2, 3, 4, 5) + this.now
}

export interface Counts {
  admitted: number
  refused: number
  wouldRefuse: number
}

/** Everything that a policy needs, real but for counters that a test can read. */
export class Kit {
  readonly clock = new TestClock()
  readonly counts: Counts = { admitted: 0, refused: 0, wouldRefuse: 0 }
  readonly logged: string[] = []
  readonly bodies = new BodyBuffers({
    total: 4 * 1024 * 1024,
    each: 1024 * 1024,
    broken: (failure) => refuse({ status: 502, code: failure })
  })
  /** Kept state over all compilations of one kit. */
  readonly kept = new Map<string, unknown>()
  readonly services: PolicyServices

  constructor(headers: 'none' | 'draft' = 'none', { allowPrivate = true, more = [] as readonly Provided[] } = {}) {
    const { clock, counts, logged } = this
    const nothing = { inc: () => undefined }
    const log: PolicyServices['log'] = {
      debug: (fields, message) => logged.push(`${message} ${JSON.stringify(fields)}`),
      warn: (fields, message) => logged.push(`${message} ${JSON.stringify(fields)}`)
    }
    const base: BaseServices = {
      ...offline(actions),
      clock,
      expressions: createExpressions({
        results: resultsOf(actions),
        clock,
        random: () => 0.5
      }),
      meter: {
        matched: () => nothing,
        decided: () => nothing,
        failed: () => nothing,
        counter: (_definition, { result }) => ({
          inc: () => counts[result === 'would_refuse' ? 'wouldRefuse' : (result as 'admitted' | 'refused')]++
        })
      },
      log,
      bodies: this.bodies,
      outbound: createOutbound({ clock: systemClock, allowPrivate })
    }
    this.services = policyServices(base, [
      provide(limiter, new LimiterTable({ clock, budgetBytes: 1024 * 1024 })),
      provide(rateLimitHeaders, headers),
      provide(keyFolders, ['/']),
      ...more
    ])
  }

  compile(document: object | string, owner = 'route:1', unavailable: 'warn' | 'refuse' = 'warn') {
    const keep = {
      keep: <T>(key: readonly unknown[], make: (identity: string) => T): T => {
        const identity = JSON.stringify(key)
        if (!this.kept.has(identity)) this.kept.set(identity, make(identity))
        return this.kept.get(identity) as T
      }
    }
    return compilePolicy(typeof document === 'string' ? document : JSON.stringify(document), {
      owner,
      services: this.services,
      keep,
      actions,
      unavailable
    })
  }

  /** Problems of one action, errors and warnings, as `severity code path: message`. */
  problems(type: string, config: unknown, phase: Phase = 'on_http_request'): string[] {
    const { problems } = this.compile({
      [phase]: [{ actions: [{ type, ...(config === undefined ? {} : { config }) }] }]
    })
    return problems.map(say)
  }

  /** Compiles actions in one rule, which must be without errors; the answer runs the phase. */
  actions(list: readonly (readonly [string, unknown?])[], phase: Phase = 'on_http_request') {
    const { policy, problems } = this.compile({
      [phase]: [{ actions: list.map(([type, config]) => (config === undefined ? { type } : { type, config })) }]
    })
    const compiled = policy?.phases[phase]
    if (compiled === null || compiled === undefined) throw new Error(problems.map(say).join('\n'))
    return (flow: Flow): Verdict | undefined => {
      const outcome = compiled.run(flow)
      if (outcome instanceof Promise) throw new Error('The phase waits')
      return outcome
    }
  }

  /** Like `actions`, for those that wait. */
  waiting(list: readonly (readonly [string, unknown?])[], phase: Phase = 'on_http_request') {
    const { policy, problems } = this.compile({
      [phase]: [{ actions: list.map(([type, config]) => (config === undefined ? { type } : { type, config })) }]
    })
    const compiled = policy?.phases[phase]
    if (compiled === null || compiled === undefined) throw new Error(problems.map(say).join('\n'))
    return async (flow: Flow): Promise<Verdict | undefined> => compiled.run(flow)
  }

  action(type: string, config?: unknown, phase: Phase = 'on_http_request') {
    return this.actions([[type, config]], phase)
  }

  /** The value of an expression over a flow, as plain data; it must compile. */
  read(source: string, flow: Flow, phase: Phase = 'on_http_request'): unknown {
    const compiled = this.services.expressions.expression(source, phase)
    if (!compiled.ok) throw new Error(JSON.stringify(compiled.problems))
    return this.services.expressions.dataOf(compiled.value.evaluate(flow))
  }
}

function say({ severity, code, path, message }: Problem): string {
  return `${severity} ${code} ${path}: ${message}`
}

/** Headers of a verdict by name. */
export function headersOf(verdict: Verdict | undefined): Record<string, string> {
  const headers: Record<string, string> = {}
  if (verdict?.kind !== 'respond') return headers
  for (let i = 0; i < verdict.headers.length; i += 2)
    headers[verdict.headers[i] as string] = verdict.headers[i + 1] as string
  return headers
}

/** `status code` of a verdict, `close`, or `goes on`. */
export function outcomeOf(verdict: Verdict | undefined): string {
  if (verdict === undefined) return 'goes on'
  if (verdict.kind === 'forward') return `forward ${verdict.host}:${verdict.port ?? ''}`
  return verdict.kind === 'close' ? 'close' : `${verdict.status} ${verdict.code ?? '-'}`
}
