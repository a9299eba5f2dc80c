import { startErrors } from '../../app/errors.js'
import type { Expressions } from '../../expression/expression.js'
import type { Flow } from '../../flow/flow.js'
import type { Clock } from '../../lib/clock.js'
import { CodedError } from '../../lib/errors.js'
import type { Options } from '../../options/options.js'
import { Sampler } from './sampler.js'
import type { TracedExchange } from './traced-exchange.js'
import { Tracer } from './tracer.js'

/** Tracing of exchanges. */
export interface Tracing {
  /** The tracer; undefined if tracing is disabled. */
  readonly tracer: Tracer | undefined
  /** Compiles the condition of the options. Throws a CodedError `TRACES`. */
  choose(expressions: Expressions): void
}

/** Creates the tracing of a worker, if enabled. `take`: see `TracerParts`. */
export function threadTracing(options: Options, clock: Clock, take: (traced: TracedExchange) => void): Tracing {
  return tracing(options, clock, tracesUrl(options) === undefined ? undefined : take)
}

/** Returns the URL for spans; undefined if disabled. */
export function tracesUrl({ otlp }: Options): string | undefined {
  return otlp.enabled && otlp.traces ? (otlp.traces_endpoint ?? below(otlp.endpoint, 'v1/traces')) : undefined
}

/** Creates the tracing. `take`: undefined if disabled. */
export function tracing(
  { traces, limiter }: Options,
  clock: Clock,
  take: ((traced: TracedExchange) => void) | undefined
): Tracing {
  const sampler = new Sampler(traces)
  const propagates = traces.propagation === 'tracecontext'
  return {
    tracer:
      take === undefined ? undefined : new Tracer({ clock, sampler, propagates, buckets: limiter.top_keys, take }),
    choose(expressions) {
      const { where } = traces
      if (where !== undefined) sampler.choose(condition(where, expressions))
    }
  }
}

/** The URL of a signal below the base, as OpenTelemetry makes it: one slash is between. */
export function below(endpoint: string | undefined, path: string): string | undefined {
  if (endpoint === undefined) return undefined
  const url = new URL(endpoint)
  url.pathname = `${url.pathname.replace(/\/$/, '')}/${path}`
  return url.href
}

/** Compiles the condition; a request for which it cannot be evaluated does not match. */
function condition(source: string, expressions: Expressions): (flow: Flow) => boolean {
  const compiled = expressions.expression(source, 'on_http_request')
  if (!compiled.ok) {
    const [first] = compiled.problems
    const before = source.slice(0, first?.start ?? 0).split('\n')
    const place = `line ${before.length}, column ${(before.at(-1)?.length ?? 0) + 1}`
    throw new CodedError(startErrors.TRACES, `traces.where: ${place}: ${first?.message}; correct the expression`)
  }
  const { type } = compiled.value
  if (type !== 'bool' && type !== 'dyn')
    throw new CodedError(startErrors.TRACES, `traces.where: is of type ${type}; give one of type bool`)
  return (flow) => compiled.value.outcome(flow) === true
}
