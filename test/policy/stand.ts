import { offline, policyServices } from '../../src/app/services.js'
import {
  type Compiled,
  EvaluationError,
  type Expression,
  type ExpressionProblem,
  type Expressions,
  type Template
} from '../../src/expression/expression.js'
import type { ConnectionFacts } from '../../src/flow/exchange.js'
import { Flow, type Phase } from '../../src/flow/flow.js'
import type { Action } from '../../src/policy/action.js'
import { type CompiledPolicy, compilePolicy } from '../../src/policy/compile.js'
import type { Problem } from '../../src/policy/problems.js'
import type { KeptStateDraft, PolicyServices } from '../../src/policy/services.js'

/**
 * A language of a few words, so that these tests say what the policy layer does and not what CEL does:
 * `true`, `false`, `dyn`, `int`, `absent`, `failed`, `not-bool`; `BAD` is a mistake where it stands, `DOUBT` a warning,
 * `set:<name>` is true when the variable is set.
 */
const words: Expressions = {
  expression: (source) =>
    compiled(
      source,
      (text): Expression => ({
        source: text,
        ...parts(text),
        evaluate: (flow) => evaluate(text, flow),
        outcome: (flow) => outcome(text, flow)
      })
    ),
  template: (source) =>
    compiled(source, (text): Template => {
      const constant = text.includes('${') ? undefined : text
      const read = (flow: Flow) => text.replace(/\$\{(.*?)\}/g, (_, inner: string) => String(evaluate(inner, flow)))
      return { source: text, constant, type: 'string', variables: new Set(), text: read, value: read }
    }),
  textOf: String,
  dataOf: (value) => value
}

function outcome(text: string, flow: Flow): unknown {
  try {
    return evaluate(text, flow)
  } catch (error) {
    if (error instanceof EvaluationError) return error
    throw error
  }
}

function parts(text: string) {
  const type = text === 'int' ? 'int' : text === 'true' || text === 'false' ? 'bool' : 'dyn'
  return { type, variables: new Set<string>(), constant: undefined }
}

function compiled<T>(source: string, make: (text: string) => T): Compiled<T> {
  const problems: ExpressionProblem[] = [...source.matchAll(/BAD|DOUBT/g)].map((match) => ({
    severity: match[0] === 'BAD' ? 'error' : 'warning',
    code: match[0] === 'BAD' ? 'EXPRESSION_SYNTAX' : 'DATA_UNAVAILABLE',
    message: 'a word',
    start: match.index,
    end: match.index + match[0].length
  }))
  if (source.includes('BAD')) return { ok: false, problems }
  return { ok: true, value: make(source), warnings: problems }
}

function evaluate(text: string, flow: Flow): unknown {
  if (text === 'absent' || text === 'failed') throw new EvaluationError(text, 'as the test asks')
  if (text === 'bug') throw new TypeError('a programming error')
  if (text.startsWith('set:')) return flow.vars?.has(text.slice(4)) === true
  return text === 'true' || text === 'dyn' ? true : text === 'false' ? false : text
}

export interface Stand {
  readonly services: PolicyServices
  /** `matched api.on_http_request.#0` with how often. */
  readonly counts: Map<string, number>
  readonly logs: { level: string; fields: Readonly<Record<string, unknown>> }[]
}

/** Services that write down what they were told. */
export function stand(expressions: Expressions = words): Stand {
  const counts = new Map<string, number>()
  const logs: Stand['logs'] = []
  const counter = (...names: string[]) => {
    const name = names.join(' ')
    return { inc: () => void counts.set(name, (counts.get(name) ?? 0) + 1) }
  }
  return {
    counts,
    logs,
    services: policyServices({
      ...offline([]),
      clock: { monotonic: () => 0, wall: () => 0 },
      expressions,
      meter: {
        matched: (owner, phase, rule) => counter('matched', owner, phase, rule),
        decided: (owner, phase, rule, action) => counter('decided', owner, phase, rule, action),
        failed: (owner, phase, rule, kind) => counter(kind, owner, phase, rule),
        counter: ({ name }) => counter(name)
      },
      log: {
        debug: (fields) => void logs.push({ level: 'debug', fields }),
        warn: (fields) => void logs.push({ level: 'warn', fields })
      }
    })
  }
}

export interface CompileSetup {
  readonly unavailable?: 'warn' | 'refuse'
  readonly keep?: KeptStateDraft
  readonly stand?: Stand
}

export function compile(text: string, actions: readonly Action[], setup: CompileSetup = {}) {
  return compilePolicy(text, {
    owner: 'api',
    services: (setup.stand ?? stand()).services,
    keep: setup.keep ?? { keep: (key, make) => make(JSON.stringify(key)) },
    actions,
    unavailable: setup.unavailable ?? 'refuse'
  })
}

/** The policy, or an error that says why there is none. */
export function compileValid(text: string, actions: readonly Action[], setup: CompileSetup = {}): CompiledPolicy {
  const { policy, problems } = compile(text, actions, setup)
  if (policy === undefined) throw new Error(problems.map(({ code, message }) => `${code}: ${message}`).join('\n'))
  return policy
}

/** `3:5 CODE path` for each problem, warnings in brackets. */
export function short(problems: readonly Problem[]): string[] {
  return problems.map(({ severity, code, line, column, path }) => {
    const text = `${line}:${column} ${code}${path === '' ? '' : ` ${path}`}`
    return severity === 'warning' ? `(${text})` : text
  })
}

export function phaseOf(policy: CompiledPolicy, phase: Phase = 'on_http_request') {
  const compiledPhase = policy.phases[phase]
  if (compiledPhase === null) throw new Error(`${phase} has no rules`)
  return compiledPhase
}

export function newFlow(): Flow {
  const address = { address: '127.0.0.1', port: 1 }
  const facts: ConnectionFacts = {
    id: 1,
    listener: 'test',
    peer: address,
    local: address,
    startedAt: 0,
    bytesIn: 0,
    bytesOut: 0
  }
  return new Flow(facts, { id: 'e', protocol: 'http', host: 'h', port: 80, region: '' }, '127.0.0.1', 1)
}
